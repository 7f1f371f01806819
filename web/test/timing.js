/** Prints the CPU time of each recognition as JSON: `node test/timing.js VECTORS MODEL`. */

import { readFile } from "node:fs/promises";

import { PosformerError, Recognizer } from "../src/index.js";
import { fetchFile } from "../src/node.js";

const [folder, model] = process.argv.slice(2);
const vectors = JSON.parse(await readFile(`${folder}/vectors.json`, "utf-8"));
const arrays = await readFile(`${folder}/arrays.bin`);

async function milliseconds(job) {
  const start = process.cpuUsage();
  try {
    await job();
  } catch (error) {
    if (!(error instanceof PosformerError)) throw error;
  }
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

let recognizer;
const load = await milliseconds(async () => {
  recognizer = await Recognizer.load(model, { fetch: fetchFile, threads: 1 });
});

async function times(list, recognize) {
  for (const vector of list) await recognize(vector).catch(() => {}); // warm up
  const found = [];
  for (const vector of list) found.push(await milliseconds(() => recognize(vector)));
  return found;
}

const pixels = ({ offset, width, height, channels }) => ({
  data: arrays.subarray(offset, offset + width * height * channels),
  width,
  height,
});
const strokes = await times(vectors.strokes, (one) => recognizer.recognizeStrokes(one.strokes));
const photographs = await times(vectors.photographs, (one) =>
  recognizer.recognizeImage(pixels(one.image)),
);
console.log(JSON.stringify({ load, strokes, photographs }));
await recognizer.release();
