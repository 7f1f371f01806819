/** Loading, options and errors, with the model in POSFORMER_MODEL. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";

import { Calibrations } from "../src/calibration.js";
import * as posformer from "../src/index.js";
import { readModel } from "../src/model.js";
import { NgramModel } from "../src/ngram_model.js";
import { fetchFile } from "../src/node.js";
import { ngramFile } from "./ngram_file.js";

const { POSFORMER_MODEL: model } = process.env;
const X = [
  [
    [0, 22],
    [18, 40],
    [36, 60],
  ],
  [
    [36, 22],
    [18, 42],
    [0, 62],
  ],
];
const skip = model ? false : "needs POSFORMER_MODEL";
let recognizer;
const progress = [];

before(async () => {
  if (skip) return;
  const onProgress = (loaded, total) => progress.push([loaded, total]);
  recognizer = await posformer.Recognizer.load(model, { fetch: fetchFile, onProgress });
});
after(() => recognizer?.release());

const failsWith = (promise, kind, message) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof posformer.PosformerError, String(error.stack));
    assert.ok(error instanceof kind);
    assert.match(error.message, message);
    assert.ok(!error.message.includes("\n"));
    return true;
  });

test("progress grows to the size of all files", { skip }, () => {
  const [loaded, total] = progress.at(-1);
  assert.equal(loaded, total);
  assert.ok(total > 1_000_000);
  progress.slice(1).forEach(([now], index) => assert.ok(now >= progress[index][0]));
});

test("an answer has the fields of the HTTP API", { skip }, async () => {
  const answer = await recognizer.recognizeStrokes(X, { topK: 3, format: "latex" });
  assert.deepEqual(Object.keys(answer).sort(), [
    "alternatives",
    "confidence",
    "latex",
    "mathml",
    "milliseconds",
    "path",
    "text",
    "unsure",
  ]);
  assert.equal(answer.path, "strokes");
  assert.equal(answer.text, answer.latex);
  assert.equal(answer.alternatives.length, 2);
  assert.ok(answer.confidence >= answer.alternatives[0].confidence);
});

test("calls at the same time do not disturb each other", { skip }, async () => {
  const alone = await recognizer.recognizeStrokes(X);
  const both = await Promise.all([1, 2].map(() => recognizer.recognizeStrokes(X)));
  assert.deepEqual(
    both.map(({ latex }) => latex),
    [alone.latex, alone.latex],
  );
});

test("bad input has one clear line", { skip }, async () => {
  const { InkError, ConfigError, ImageError, NoInkError } = posformer;
  const strokes = (value, options) => recognizer.recognizeStrokes(value, options);
  await failsWith(strokes([]), InkError, /^strokes: there is no ink$/);
  await failsWith(strokes([[[1, 2], [3]]]), InkError, /stroke 1 is not a list of points/);
  await failsWith(strokes([[[1, NaN]]]), InkError, /out of range/);
  await failsWith(
    strokes([
      [
        [0, 0],
        [1, 1],
      ],
      "ab",
    ]),
    InkError,
    /stroke 2/,
  );
  await failsWith(
    strokes([
      [
        [0, 0],
        [100_000, 0],
      ],
      [
        [0, 0],
        [0, 1],
      ],
    ]),
    InkError,
    /too large/,
  );
  await failsWith(strokes(X, { beam: 0 }), ConfigError, /beam must be an integer/);
  await failsWith(strokes(X, { languageWeight: -1 }), ConfigError, /languageWeight must be at/);
  await failsWith(strokes(X, { beams: 2 }), ConfigError, /unknown option beams/);
  await failsWith(strokes(X, { format: "word" }), ConfigError, /unknown format/);
  const image = (data, width, height) => recognizer.recognizeImage({ data, width, height });
  await failsWith(image(new Uint8Array(5), 2, 2), ImageError, /bytes per pixel/);
  await failsWith(image(new Uint8Array(0), 0, 0), ImageError, /no pixels/);
  const paper = new Uint8ClampedArray(4 * 50 * 80).fill(255);
  await failsWith(image(paper, 80, 50), NoInkError, /there is no ink in the image/);
  await failsWith(recognizer.recognizeImage(undefined), ImageError, /no pixels/);
  assert.equal((await strokes(X)).path, "strokes"); // still works
});

test("a damaged, missing or unknown model has one clear line", { skip }, async () => {
  const { ModelError, Recognizer } = posformer;
  const load = (change) =>
    Recognizer.load("model/", {
      fetch: async (url) => {
        const name = String(url).replace("model/", "");
        const response = await fetchFile(`${model}/${name}`);
        const content = change(name, new Uint8Array(await response.arrayBuffer()));
        return content === null ? new Response("", { status: 404 }) : new Response(content);
      },
    });
  const withConfig = (edit) => (name, bytes) => {
    if (name !== "config.json") return bytes;
    const config = JSON.parse(new TextDecoder().decode(bytes));
    edit(config);
    return JSON.stringify(config);
  };
  const cut = (name, bytes) => (name === "decoder.onnx" ? bytes.slice(0, 1000) : bytes);
  await failsWith(load(cut), ModelError, /model\/decoder.onnx: damaged/);
  await failsWith(
    load(() => null),
    ModelError,
    /config.json: cannot be loaded \(status 404\)/,
  );
  await failsWith(
    load(() => "{"),
    ModelError,
    /not JSON/,
  );
  await failsWith(
    load(() => "[]"),
    ModelError,
    /not the config/,
  );
  await failsWith(load(withConfig((one) => (one.format = 3))), ModelError, /newer than/);
  await failsWith(load(withConfig((one) => (one.model.name = "san"))), ModelError, /only Python/);
});

test("a model folder may have a language model", { skip }, async () => {
  const { ModelError } = posformer;
  const name = "language.safetensors";
  const file = ngramFile(["x"], [{ x: 16 }], []);
  let total = 0;
  const load = (language, checksum = createHash("sha256").update(language).digest("hex")) =>
    readModel("model/", {
      onProgress: (_, all) => (total = all),
      fetch: async (url) => {
        const file = String(url).replace("model/", "");
        if (file === name) return new Response(language);
        const response = await fetchFile(`${model}/${file}`);
        if (file !== "config.json") return response;
        const config = await response.json();
        config.files[name] = checksum || undefined;
        return new Response(JSON.stringify(config));
      },
    });
  assert.equal((await load(file, "")).language, null);
  const without = total;
  const { language, vocabulary } = await load(file);
  assert.equal(total, without + file.length);
  assert.equal(language.meanLogProbability([vocabulary.tokens.indexOf("x") + 3]), -1);
  await failsWith(load(file, "0"), ModelError, /^model\/language.safetensors: damaged \(its check/);
  await failsWith(
    load(file.slice(0, -1)),
    ModelError,
    /^model\/language.safetensors: not an n-gram model, or damaged: it is cut off$/,
  );
});

test("a page without ink inside transparent pixels is white paper", { skip }, async () => {
  // A black cross on transparent pixels, as canvases deliver it.
  const side = 90;
  const data = new Uint8ClampedArray(4 * side * side);
  for (let i = 20; i < 70; i++) {
    for (let pen = -1; pen < 2; pen++) {
      data[4 * (i * side + i + pen) + 3] = 255;
      data[4 * (i * side + side - 1 - i + pen) + 3] = 255;
    }
  }
  const answer = await recognizer.recognizeImage({ data, width: side, height: side });
  assert.match(answer.latex, /^(\\times|[xX])$/);
});

/** Return a recognizer of the loaded model with some parts changed. */
const changed = (parts) => {
  const values = Object.entries(parts).map(([name, value]) => [name, { value }]);
  return new posformer.Recognizer(
    Object.create(recognizer.runtime, Object.fromEntries(values)),
  );
};

test("a model without a margin is searched with all options", { skip }, async () => {
  const thresholds = { ...recognizer.runtime.info.thresholds, margin: undefined, certain: -0.1 };
  const info = JSON.parse(JSON.stringify({ ...recognizer.runtime.info, thresholds }));
  const old = changed({ info });
  const [image] = recognizer.prepareStrokes(X);
  const full = await recognizer.decode(image, { adaptive: false });
  assert.deepEqual(await old.decode(image), full);
  thresholds.margin = 1e-9; // nothing is that close
  const certain = changed({ info: { ...info, thresholds } });
  assert.notEqual((await certain.decode(image))[0].score, full[0].score); // of one scale
});

test("a language model ranks, greedy search ignores it", { skip }, async () => {
  const { vocabulary, info } = recognizer.runtime;
  const [image] = recognizer.prepareStrokes(X);
  const off = { languageWeight: 0 };
  const [best] = await recognizer.decode(image, off);
  const token = vocabulary.decode(best.tokens)[0];
  const unlikely = ngramFile([token], [{ [token]: 255 }], []); // others do not count
  const language = NgramModel.parse(unlikely, "").forVocabulary(vocabulary);
  const changedBy = (weight) => changed({ language, info: { ...info, language: { weight } } });
  for (const adaptive of [true, false]) {
    const weighted = { languageWeight: 1, adaptive };
    const [other] = await changedBy(0).decode(image, weighted);
    assert.notDeepEqual(other.tokens, best.tokens);
    assert.deepEqual(await changedBy(1).decode(image, { adaptive }), [other]);
  }
  assert.deepEqual(await changedBy(1).decode(image, off), [best]);
  const greedy = await recognizer.decode(image, { greedy: true });
  assert.deepEqual(await changedBy(1).decode(image, { greedy: true }), greedy);
  const all = await changedBy(1).decode(image, { topK: 5, scales: 1 });
  const unlikeliest = all.find(({ tokens }) => tokens.join() === best.tokens.join());
  const { score, forward, backward } = unlikeliest;
  assert.ok(Math.abs(score - (forward + backward - 255 / 16)) < 1e-9);
});

test("inputs of a kind without a calibration use that for ink", () => {
  const [ink, photo] = [{ bias: 1 }, { bias: 2 }];
  const some = new Calibrations({ calibration: ink, calibrations: { photo } });
  assert.deepEqual(["ink", "photo", "clean"].map((kind) => some.of(kind)), [ink, photo, ink]);
  assert.equal(new Calibrations({}).of("photo"), null);
  assert.equal(new Calibrations({ calibrations: { photo } }).of("photo"), photo);
});

test("outputs that are not numbers have one clear line", { skip }, async () => {
  const row = new Float32Array(recognizer.runtime.vocabulary.size).fill(NaN);
  const model = { start: () => ({}), step: async () => ({ logProbs: () => row, state: {} }) };
  const damaged = changed({ encode: async () => model });
  for (const options of [{}, { greedy: true }, { adaptive: false }]) {
    const answer = damaged.recognizeStrokes(X, options);
    await failsWith(answer, posformer.ModelError, /finds nothing at all; its weights are damaged/);
  }
});
