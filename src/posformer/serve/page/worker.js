// Runs the recognizer apart from the page, which stays responsive.

import { PosformerError, Recognizer } from "./recognizer/index.js";

const RUNTIME = new URL("runtime/", import.meta.url).href;
const GZIP = [0x1f, 0x8b];
let recognizer;

const calls = {
  async load(modelUrl, total) {
    let before = 0;
    const report = (loaded) => postMessage({ progress: [before + loaded, total] });
    const ort = await import(`${RUNTIME}ort.wasm.min.mjs`);
    const response = await fetch(`${RUNTIME}ort-wasm-simd-threaded.wasm.gz`);
    if (!response.ok) throw new PosformerError(`the runtime cannot be loaded (status ${response.status})`);
    const packed = await received(response, report);
    ort.env.wasm.wasmBinary = await unpacked(packed);
    before = packed.length;
    recognizer = await Recognizer.load(modelUrl, { runtimeUrl: RUNTIME, threads: 1, onProgress: report });
  },
  recognizeStrokes: (...parameters) => recognizer.recognizeStrokes(...parameters),
  recognizeImage: (...parameters) => recognizer.recognizeImage(...parameters),
};

async function received(response, report) {
  const parts = [];
  let loaded = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    report(loaded += value.length);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// Some hosts unpack files by their name, others do not.
function unpacked(bytes) {
  if (!GZIP.every((byte, place) => bytes[place] === byte)) return bytes.buffer;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

addEventListener("message", async ({ data: { number, name, parameters } }) => {
  try {
    postMessage({ number, result: await calls[name](...parameters) });
  } catch (error) {
    if (!(error instanceof PosformerError)) console.error(error);
    postMessage({ number, error: sentence(error.message) });
  }
});

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
