// Runs the recognizer apart from the page, which stays responsive.

import { PosformerError, Recognizer } from "./recognizer/index.js";
import { readModel } from "./recognizer/model.js";
import { Runtime } from "./recognizer/runtime.js";

const RUNTIME = new URL("runtime/", import.meta.url).href;
const GZIP = [0x1f, 0x8b];
let recognizer;

const calls = {
  // Loads the runtime and the model at the same time.
  async load(modelUrl, total) {
    const loaded = { runtime: 0, model: 0 };
    const report = (part) => (bytes) => {
      loaded[part] = bytes;
      postMessage({ progress: [loaded.runtime + loaded.model, total] });
    };
    const [model] = await Promise.all([
      readModel(modelUrl, { onProgress: report("model") }),
      prepareRuntime(report("runtime")),
    ]);
    recognizer = new Recognizer(await Runtime.open(model, { runtimeUrl: RUNTIME, threads: 1 }));
  },
  recognizeStrokes: (...parameters) => recognizer.recognizeStrokes(...parameters),
  recognizeImage: (...parameters) => recognizer.recognizeImage(...parameters),
};

async function prepareRuntime(report) {
  const ort = await import(`${RUNTIME}ort.wasm.min.mjs`);
  const response = await fetch(`${RUNTIME}ort-wasm-simd-threaded.wasm.gz`);
  if (!response.ok) throw new PosformerError(`the runtime cannot be loaded (status ${response.status})`);
  ort.env.wasm.wasmBinary = await unpacked(await received(response, report));
}

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
