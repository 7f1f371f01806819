/** A `fetch` for `Recognizer.load` that reads paths and `file:` URLs, and the web otherwise. */
export function fetchFile(url: string | URL): Promise<Response>;
