/** Reading a model folder over HTTP or from another source. */

import { ModelError } from "./errors.js";
import { NgramModel } from "./ngram_model.js";
import { Vocabulary } from "./vocabulary.js";

const FORMAT = 2;
const CONFIG = "config.json";
const VOCABULARY = "vocabulary.txt";
export const ENCODER = "encoder.onnx";
export const DECODER = "decoder.onnx";
export const WEIGHTS = "model.safetensors";
const LANGUAGE = "language.safetensors"; // optional

// Models that decode captions token by token with one decoder; Python runs the others.
const SUPPORTED = new Set([
  ...["posformer", "ical", "dwap", "abm", "can", "ssan", "rlfn", "robust_scanner", "dwap_san"],
]);

/**
 * Read a model folder.
 *
 * @param {string | URL} url of the folder
 * @param {{fetch?: typeof fetch, onProgress?: (loaded: number, total: number) => void}} options
 * @returns `{ config, vocabulary, info, language, files }`: the n-gram language model or null, and
 *   the files as bytes by name
 */
export async function readModel(url, { fetch = globalThis.fetch, onProgress = () => {} } = {}) {
  const folder = String(url).replace(/\/?$/, "/");
  const read = (name, progress) => readFile(folder + name, fetch, progress);
  const content = parseConfig(folder, await read(CONFIG, () => {}));
  checkModel(folder, content);
  const names = [VOCABULARY, ENCODER, DECODER, WEIGHTS];
  for (const name of names) {
    if (!content.files[name]) throw new ModelError(`${folder}: this model has no ${name}`);
  }
  if (content.files[LANGUAGE]) names.push(LANGUAGE);
  const progress = new Progress(names, onProgress);
  const contents = await Promise.all(
    names.map(async (name) => {
      const bytes = await read(name, (loaded, total) => progress.update(name, loaded, total));
      await verify(folder + name, bytes, content.files[name]);
      return [name, bytes];
    }),
  );
  const files = Object.fromEntries(contents);
  const vocabulary = Vocabulary.parse(new TextDecoder().decode(files[VOCABULARY]));
  const language = readLanguage(folder, files, vocabulary);
  return { config: content.model, info: content.info ?? {}, vocabulary, language, files };
}

/** Return the language model for the vocabulary; null if there is none. */
function readLanguage(folder, files, vocabulary) {
  if (!files[LANGUAGE]) return null;
  return NgramModel.parse(files[LANGUAGE], folder + LANGUAGE).forVocabulary(vocabulary);
}

function parseConfig(folder, bytes) {
  let content = null;
  try {
    content = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new ModelError(`${folder}${CONFIG}: not JSON: ${error.message}`);
  }
  if (!Number.isInteger(content?.format) || !content.model || !content.files) {
    throw new ModelError(`${folder}${CONFIG}: not the config of a posformer model`);
  }
  return content;
}

function checkModel(folder, { format, model }) {
  if (format > FORMAT) {
    const known = `newer than this program knows (${FORMAT})`;
    throw new ModelError(`${folder}: model format ${format} is ${known}; update posformer`);
  }
  if (format < FORMAT) {
    const advice = "export it again with a newer posformer";
    throw new ModelError(`${folder}: model format ${format} is too old for JavaScript; ${advice}`);
  }
  const name = model.name ?? "posformer";
  if (!SUPPORTED.has(name)) {
    throw new ModelError(`${folder}: JavaScript does not run ${name}, only Python does`);
  }
}

/** Adds up the progress of files that are read at the same time. */
class Progress {
  constructor(names, onProgress) {
    this.parts = new Map(names.map((name) => [name, { loaded: 0, total: NaN }]));
    this.onProgress = onProgress;
  }

  update(name, loaded, total) {
    this.parts.set(name, { loaded, total });
    const parts = [...this.parts.values()];
    const sumOf = (field) => parts.reduce((all, part) => all + part[field], 0);
    this.onProgress(sumOf("loaded"), sumOf("total") || 0); // 0 while it is not known
  }
}

async function readFile(url, fetch, onProgress) {
  let response;
  try {
    response = await fetch(url);
  } catch (error) {
    throw new ModelError(`${url}: cannot be loaded (${error.message})`);
  }
  if (!response.ok) throw new ModelError(`${url}: cannot be loaded (status ${response.status})`);
  const isEncoded = response.headers.has("content-encoding"); // then the length is another one
  const length = isEncoded ? NaN : Number(response.headers.get("content-length") ?? NaN);
  if (!response.body) return new Uint8Array(await response.arrayBuffer());
  const chunks = [];
  let loaded = 0;
  try {
    for (const reader = response.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      chunks.push(value);
      loaded += value.length;
      onProgress(loaded, length);
    }
  } catch (error) {
    throw new ModelError(`${url}: cannot be loaded (${error.message})`);
  }
  onProgress(loaded, loaded);
  const bytes = new Uint8Array(loaded);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

/** Compare the SHA-256 of a file; browsers compute it only on HTTPS and on localhost. */
async function verify(url, bytes, checksum) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) return;
  const digest = new Uint8Array(await subtle.digest("SHA-256", bytes));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== checksum) {
    throw new ModelError(`${url}: damaged (its checksum is not the one in ${CONFIG})`);
  }
}
