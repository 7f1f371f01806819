/** Confidence: from the scores of the search to the probability that a result is correct. */

import { mean } from "./arrays.js";

const DEFAULT_KIND = "ink";
const MIN_PROBABILITY = 1e-6; // no result is impossible or certain

/** The calibrations of a model by kind of input: `ink`, `photo`, `clean`. */
export class Calibrations {
  #byKind;

  /** Take the calibrations from the info of a model. */
  constructor({ calibration = null, calibrations = {} }) {
    this.#byKind = new Map([[DEFAULT_KIND, calibration], ...Object.entries(calibrations)]);
  }

  /** Return the calibration for a kind of input, by default that for ink; null if none. */
  of(kind) {
    return this.#byKind.get(kind) ?? this.#byKind.get(DEFAULT_KIND) ?? null;
  }
}

/**
 * Return the confidence of each hypothesis of one image.
 *
 * With a calibration these are probabilities of being correct. At most one hypothesis is correct,
 * so they never increase and sum to at most 1. Without, each is the mean token probability.
 *
 * @param hypotheses best first
 * @param calibration `{ bias, total, mean, length }` of the model, or null
 */
export function confidences(hypotheses, calibration) {
  if (!calibration) return hypotheses.map(meanTokenProbability);
  const found = [];
  let left = 1;
  for (const hypothesis of hypotheses) {
    const most = Math.min(left, found.at(-1) ?? 1);
    found.push(Math.max(0, Math.min(probability(hypothesis, calibration), most)));
    left -= found.at(-1);
  }
  return found;
}

/** Return the mean probability of the tokens of a hypothesis. */
export function meanTokenProbability(hypothesis) {
  return Math.exp(Math.min(meanLogProbability(hypothesis), 0));
}

function probability(hypothesis, { bias, total, mean: perToken, length }) {
  const count = hypothesis.tokens.length + 1;
  const average = meanLogProbability(hypothesis);
  const odds = bias + total * average * count + perToken * average + length * Math.log(count);
  const found = 1 / (1 + Math.exp(-Math.min(50, Math.max(-50, odds))));
  return Math.min(1 - MIN_PROBABILITY, Math.max(MIN_PROBABILITY, found));
}

/** The log-probability per token, averaged over the directions. */
function meanLogProbability({ forward, backward, score }) {
  const known = [forward, backward].filter((one) => one !== null);
  return known.length ? mean(known) : score;
}
