/** Replays the vectors in the folder POSFORMER_VECTORS with the model in POSFORMER_MODEL. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { Recognizer } from "../src/index.js";
import { fetchFile } from "../src/node.js";
import { replay } from "./replay.js";

const { POSFORMER_VECTORS: folder, POSFORMER_MODEL: model } = process.env;
const skip = folder && model ? false : "needs POSFORMER_VECTORS and POSFORMER_MODEL";

test("results equal those of Python", { skip }, async () => {
  const vectors = JSON.parse(await readFile(`${folder}/vectors.json`, "utf-8"));
  const arrays = await readFile(`${folder}/arrays.bin`);
  const recognizer = await Recognizer.load(model, { fetch: fetchFile });
  const report = await replay(recognizer, vectors, arrays);
  await recognizer.release();
  assert.deepEqual(report.problems, []);
  assert.ok(report.strokes.count + report.photographs.count > 0);
});
