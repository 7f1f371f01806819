/** Prints the report of a replay as JSON: `node test/report.js VECTORS MODEL`. */

import { readFile } from "node:fs/promises";

import { Recognizer } from "../src/index.js";
import { fetchFile } from "../src/node.js";
import { replay } from "./replay.js";

const [folder, model] = process.argv.slice(2);
const vectors = JSON.parse(await readFile(`${folder}/vectors.json`, "utf-8"));
const arrays = await readFile(`${folder}/arrays.bin`);
const recognizer = await Recognizer.load(model, { fetch: fetchFile });
console.log(JSON.stringify(await replay(recognizer, vectors, arrays), null, 1));
await recognizer.release();
