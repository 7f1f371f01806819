/** Compares the package with the vectors that `scripts/write_web_vectors.py` wrote. */

import { Automaton } from "../src/automaton.js";
import { PosformerError } from "../src/errors.js";
import { convert } from "../src/formats.js";
import { readPixels } from "../src/pixels.js";
import { inputKind } from "../src/preparation.js";
import { isValid } from "../src/syntax.js";

const SCORE_TOLERANCE = 1e-3;
const CONFIDENCE_TOLERANCE = 1e-3;
const LANGUAGE_TOLERANCE = 1e-12; // no weights are involved
/** Share of photographs whose LaTeX must be the same. */
export const SAME_PHOTOGRAPHS = 0.98;

/**
 * Replay all vectors.
 *
 * @param recognizer a loaded `Recognizer`
 * @param vectors parsed `vectors.json`
 * @param {Uint8Array} arrays content of `arrays.bin`
 * @returns counts, the largest differences, and `problems`: a line for each violated requirement
 */
export async function replay(recognizer, vectors, arrays) {
  const report = {
    grammar: vectors.grammar.length,
    formats: vectors.formats.length,
    language: vectors.language.length,
    strokes: { count: 0, sameImages: 0, sameLatex: 0, worstScore: 0, worstConfidence: 0 },
    photographs: {
      count: 0,
      sameImages: 0,
      sameLatex: 0,
      worstScore: 0,
      worstConfidence: 0,
      kinds: { ink: 0, photo: 0, clean: 0 },
      differing: [],
    },
    problems: [],
  };
  vectors.grammar.forEach((vector, number) => replayWalk(recognizer, vector, number, report));
  vectors.formats.forEach((vector) => replayFormats(vector, report));
  vectors.language.forEach((vector, number) => replayLanguage(recognizer, vector, number, report));
  for (const vector of vectors.strokes) await replayStrokes(recognizer, vector, arrays, report);
  for (const vector of vectors.photographs) {
    await replayPhotograph(recognizer, vector, arrays, report);
  }
  const { count, sameLatex } = report.photographs;
  if (sameLatex < SAME_PHOTOGRAPHS * count) {
    report.problems.push(`only ${sameLatex} of ${count} photographs have the same LaTeX`);
  }
  return report;
}

function replayWalk(recognizer, { reverse, walk }, number, { problems }) {
  const automaton = new Automaton(recognizer.runtime.vocabulary.tokens);
  let state = automaton.start(reverse);
  walk.forEach((expected, place) => {
    const growth = automaton.growth[state.mode];
    const allowed = [...automaton.classOf.keys()].filter(
      (token) => growth[automaton.classOf[token]] !== null,
    );
    const sum = allowed.reduce((one, other) => one + other, 0);
    const isSame = state.missing === expected.missing && allowed.length === expected.allowed;
    if (!isSame || sum !== expected.sum) problems.push(`grammar ${number}: step ${place} differs`);
    state = automaton.advance(state, expected.next);
  });
}

function replayFormats({ tokens, valid, texts }, { problems }) {
  if (isValid(tokens) !== valid) problems.push(`${tokens.join(" ")} is ${valid ? "" : "in"}valid`);
  for (const [format, expected] of Object.entries(texts)) {
    const text = convert(tokens, format);
    if (text !== expected) problems.push(`${format}: ${text} is not ${expected}`);
  }
}

function replayLanguage(recognizer, vector, number, { problems }) {
  const { language } = recognizer.runtime;
  const found = {
    mean: language.meanLogProbability(vector.tokens),
    prior: language.prior(vector.weight, vector.lengthPower)(vector.tokens),
  };
  for (const [field, value] of Object.entries(found)) {
    const difference = Math.abs(value - vector[field]);
    if (!(difference <= LANGUAGE_TOLERANCE)) {
      problems.push(`language ${number}: ${field} is off by ${difference}`);
    }
  }
}

async function replayStrokes(recognizer, vector, arrays, report) {
  const { strokes: found, problems } = report;
  const { name, strokes, options } = vector;
  const complain = (text) => problems.push(`${name} ${JSON.stringify(options)}: ${text}`);
  found.count++;
  const answer = await attempt(() => recognizer.recognizeStrokes(strokes, options));
  compareError(answer, vector, complain);
  if (vector.error && !vector.prepared.length) {
    found.sameImages++;
    found.sameLatex++;
    return;
  }
  const images = recognizer.prepareStrokes(strokes);
  if (countDifferent(images, vector.prepared, arrays) === 0) found.sameImages++;
  else complain("its image differs");
  for (const [number, image] of images.entries()) {
    const hypotheses = await recognizer.decode(image, options);
    const worst = compareHypotheses(hypotheses, vector.hypotheses[number] ?? [], complain);
    found.worstScore = Math.max(found.worstScore, worst);
  }
  if (!vector.error) {
    const worst = compareAnswers(answer, vector.answer, complain);
    found.worstConfidence = Math.max(found.worstConfidence, worst);
  }
  if (vector.error || answer.latex === vector.answer.latex) found.sameLatex++;
}

/** Compare all hypotheses; return the largest difference of a score. */
function compareHypotheses(hypotheses, expected, complain) {
  let worst = 0;
  if (hypotheses.length !== expected.length) complain("it has another number of hypotheses");
  hypotheses.slice(0, expected.length).forEach((one, rank) => {
    const other = expected[rank];
    if (one.tokens.join() !== other.tokens.join()) complain(`hypothesis ${rank} differs`);
    for (const field of ["score", "forward", "backward"]) {
      if ((one[field] === null) !== (other[field] === null))
        complain(`${field} ${rank} is missing`);
      const difference = Math.abs((one[field] ?? 0) - (other[field] ?? 0));
      worst = Math.max(worst, difference);
      if (!(difference <= SCORE_TOLERANCE)) complain(`${field} ${rank} is off by ${difference}`);
    }
  });
  return worst;
}

function compareAnswers(answer, expected, complain) {
  const readings = [answer, ...(answer.alternatives ?? [])];
  const others = [expected, ...expected.alternatives];
  if (answer.unsure !== expected.unsure) complain("its unsureness differs");
  if (readings.length !== others.length) complain("it has another number of alternatives");
  const differences = readings.slice(0, others.length).map((one, rank) => {
    if (one.latex !== others[rank].latex) complain(`${one.latex} is not ${others[rank].latex}`);
    return Math.abs(one.confidence - others[rank].confidence);
  });
  const worst = Math.max(...differences);
  if (!(worst <= CONFIDENCE_TOLERANCE)) complain(`its confidence is off by ${worst}`);
  return worst;
}

function compareError(answer, { error }, complain) {
  const message = answer instanceof PosformerError ? answer.message : null;
  if (message !== error) complain(`the error is ${message}, not ${error}`);
}

async function replayPhotograph(recognizer, vector, arrays, report) {
  const { photographs: found, problems } = report;
  const { name, image, options } = vector;
  found.count++;
  const data = { ...image, data: pixelsOf(image, arrays) };
  const complain = (text) => problems.push(`${name}: ${text}`);
  const kind = inputKind(readPixels(data));
  found.kinds[kind]++;
  if (kind !== vector.kind) complain(`its kind is ${kind}, not ${vector.kind}`);
  const answer = await attempt(() => recognizer.recognizeImage(data, options));
  const latex = answer instanceof PosformerError ? answer.message : answer.latex;
  const expected = vector.error ?? vector.answer.latex;
  if (latex === expected) found.sameLatex++;
  else found.differing.push({ name, latex, expected });
  const prepared = await attempt(() => recognizer.prepareImage(data));
  if (prepared instanceof PosformerError) return;
  const isSame = countDifferent(prepared, vector.prepared, arrays) === 0;
  if (isSame) found.sameImages++;
  if (isSame && latex === expected && vector.answer && !vector.error) {
    const worst = compareAnswers(answer, vector.answer, complain);
    found.worstConfidence = Math.max(found.worstConfidence, worst);
  }
  if (latex !== expected || prepared.length !== vector.hypotheses.length) return;
  for (const [number, part] of prepared.entries()) {
    const [best] = await recognizer.decode(part, options);
    const difference = Math.abs(best.score - vector.hypotheses[number][0].score);
    found.worstScore = Math.max(found.worstScore, difference);
  }
}

/** Return how many images differ in a pixel, or all if their number differs. */
function countDifferent(images, expected, arrays) {
  if (images.length !== expected.length) return Math.max(images.length, expected.length);
  return images.filter((image, number) => {
    const other = pixelsOf(expected[number], arrays);
    const isSameSize =
      image.width === expected[number].width && image.height === expected[number].height;
    return !isSameSize || image.data.some((value, at) => value !== other[at]);
  }).length;
}

function pixelsOf({ offset, width, height, channels }, arrays) {
  return arrays.subarray(offset, offset + width * height * channels);
}

async function attempt(job) {
  try {
    return await job();
  } catch (error) {
    if (error instanceof PosformerError) return error;
    throw error;
  }
}
