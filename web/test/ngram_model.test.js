/** The n-gram language model, compared with results that were computed by hand. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { merge, rank } from "../src/bidirectional.js";
import { ModelError } from "../src/errors.js";
import { NgramModel, hashNgram, noPrior } from "../src/ngram_model.js";
import { Vocabulary } from "../src/vocabulary.js";
import { fileOf, ngramFile } from "./ngram_file.js";

const FILE = ngramFile(
  ["x", "+", "1"],
  [{ x: 16, "+": 32, 1: 48, "</s>": 8 }, { "<s> x": 4, "x +": 12 }, { "<s> x +": 2 }],
  [{ "<s>": 1, x: 20, "+": 40 }, { "x +": 80 }],
);
const VOCABULARY = new Vocabulary(["&", "1", "+", "x"]); // ids 3 to 6
const [OTHER, ONE, PLUS, X] = [3, 4, 5, 6];
const MODEL = NgramModel.parse(FILE, "language.safetensors").forVocabulary(VOCABULARY);

test("hashes are FNV-1a of 32 bits", () => {
  assert.equal(hashNgram([0x61], 0, 1), 0xe40c292c); // as published for "a"
  assert.equal(hashNgram([9, ...Buffer.from("foobar")], 6, 6), 0xbf9cf968);
});

test("probabilities back off to shorter n-grams", () => {
  const steps = (...numbers) => -numbers.reduce((one, other) => one + other) / 16;
  // Of each token the longest n-gram that the model has, and the weights of contexts it has not.
  assert.equal(MODEL.meanLogProbability([X]), steps(4, 8 + 20) / 2);
  assert.equal(MODEL.meanLogProbability([X, PLUS]), steps(4, 2, 8 + 40 + 80) / 3);
  assert.equal(MODEL.meanLogProbability([PLUS, X]), steps(32 + 1, 16 + 40, 8 + 20) / 3);
  assert.equal(MODEL.meanLogProbability([]), steps(8 + 1));
});

test("tokens that the model does not know do not count", () => {
  assert.equal(MODEL.meanLogProbability([OTHER]), -8 / 16);
  assert.equal(MODEL.meanLogProbability([OTHER, ONE, OTHER]), -(48 + 8) / 16 / 2);
  const empty = ngramFile(["x"], [{ x: 16 }], []);
  const other = NgramModel.parse(empty, "").forVocabulary(VOCABULARY);
  assert.equal(other.meanLogProbability([OTHER]), 0);
});

test("the prior of a direction has half of the weight", () => {
  assert.equal(MODEL.prior(0), noPrior);
  assert.equal(noPrior([X]), 0);
  for (const [lengthPower, length] of [
    [1, 1],
    [0, 3],
    [0.5, 3 ** 0.5],
  ]) {
    const prior = MODEL.prior(0.4, lengthPower);
    const expected = 0.2 * MODEL.meanLogProbability([PLUS, X]) * length;
    assert.equal(prior([PLUS, X]), expected);
    assert.equal(prior([PLUS, X]), expected);
  }
});

test("the prior ranks, and the scores of the directions are without it", () => {
  const found = [[[{ tokens: [ONE], score: -0.25 }], [{ tokens: [ONE], score: -0.25 }]]];
  for (const hypotheses of found[0]) hypotheses.push({ tokens: [X], score: -0.5 });
  const ranked = (prior) =>
    rank(merge(found, prior), () => true, { rescore: true, topK: 2 }, prior).map(
      ({ tokens: [token], score, forward, backward }) => [token, score, forward, backward],
    );
  assert.deepEqual(ranked(noPrior), [
    [ONE, -0.5, -0.25, -0.25],
    [X, -1, -0.5, -0.5],
  ]);
  const ofX = 2 * MODEL.meanLogProbability([X]);
  const ofOne = 2 * MODEL.meanLogProbability([ONE]);
  assert.deepEqual(ranked(MODEL.prior(2)), [
    [X, -1 + ofX, -0.5, -0.5],
    [ONE, -0.5 + ofOne, -0.25, -0.25],
  ]);
});

test("a file that starts anywhere in a buffer can be read", () => {
  const larger = new Uint8Array(FILE.length + 6);
  larger.set(FILE, 3);
  const model = NgramModel.parse(larger.subarray(3, FILE.length + 3), "").forVocabulary(VOCABULARY);
  assert.equal(model.meanLogProbability([X]), MODEL.meanLogProbability([X]));
});

test("a damaged file has one clear line", () => {
  const changed = (change) => {
    const bytes = Uint8Array.from(FILE);
    change(bytes);
    return bytes;
  };
  const metadata = { format: "posformer n-gram model 1", tokens: "[]", info: "{}" };
  const files = [
    [new Uint8Array(0), /cut off/],
    [FILE.subarray(0, 5), /cut off/],
    [FILE.subarray(0, 100), /cut off/],
    [FILE.subarray(0, FILE.length - 1), /cut off/],
    [changed((bytes) => (bytes[8] = 10)), /not JSON/],
    [ngramFile([], [{ x: 1 }], [], { format: "2" }), /format is '2', not 'posformer n-gram/],
    [ngramFile([], [{ x: 1 }], [], { tokens: "[" }), /not JSON/],
    [ngramFile([], [], []), /no n-grams/],
    [ngramFile(["x", "1"], [{ x: 1, 1: 1 }, { "x x": 1 }], []), /entries of contexts.1 are wrong/],
    [changed((bytes) => bytes.fill(0, -50)), /entries of .* are wrong/],
    [fileOf(null, []), /./],
    [fileOf({}, []), /./],
    [fileOf({ __metadata__: metadata, "ngrams.1.hashes": { dtype: "F64" } }, []), /./],
  ];
  for (const [file, reason] of files) {
    assert.throws(
      () => NgramModel.parse(file, "model/language.safetensors"),
      (error) => {
        assert.ok(error instanceof ModelError, String(error.stack));
        const start = "model/language.safetensors: not an n-gram model, or damaged: ";
        assert.ok(error.message.startsWith(start) && !error.message.includes("\n"));
        assert.match(error.message.slice(start.length), reason);
        return true;
      },
    );
  }
});
