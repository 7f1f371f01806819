/** For Node: reading a model folder from disk. */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

/** A `fetch` for `Recognizer.load` that reads paths and `file:` URLs, and the web otherwise. */
export async function fetchFile(url) {
  const text = String(url);
  if (/^https?:/.test(text)) return globalThis.fetch(url);
  const bytes = await readFile(text.startsWith("file:") ? fileURLToPath(text) : text);
  return new Response(bytes, { headers: { "content-length": String(bytes.length) } });
}
