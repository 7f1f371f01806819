/** Search in both directions and at several scales, with every hypothesis scored by all of them. */

import { sum } from "./arrays.js";
import { beamSearch, bothDirections } from "./beam.js";

/**
 * Find the best token sequences of an expression.
 *
 * Each scale is searched separately; the hypotheses of all scales are then scored at every scale.
 *
 * @param models the decoder at each scale
 * @param options resolved options
 * @param vocabulary special tokens
 * @param rules see `beamSearch`; `isWellFormed`: invalid sequences rank after all valid ones;
 *   `prior`: see `NgramModel`, for the choice among finished sequences; greedy search ignores it
 * @returns up to `topK` distinct hypotheses `{ tokens, score, forward, backward }`, best first
 */
export async function search(models, options, vocabulary, rules) {
  const directions = bothDirections(vocabulary);
  const searched = options.directions === "both" ? directions : directions.slice(0, 1);
  const found = [];
  for (const model of models) found.push(await beamSearch(model, options, searched, rules));
  if (options.greedy) return found[0][0].map(greedyHypothesis);
  const { prior } = rules;
  let scores = merge(found, prior);
  const isValid = remembered(rules.isWellFormed);
  if (options.rescore) scores = await rescore(scores, models, directions, isValid, options, prior);
  return rank(scores, isValid, options, prior);
}

function greedyHypothesis({ tokens, score }) {
  return { tokens, score, forward: score, backward: null };
}

function remembered(isWellFormed) {
  const known = new Map();
  return ({ tokens }) => {
    const key = tokens.join();
    if (!known.has(key)) known.set(key, isWellFormed(tokens));
    return known.get(key);
  };
}

/**
 * Merge the hypotheses of all scales and directions; add their prior.
 *
 * @param found by scale and direction
 * @param prior see `NgramModel`
 * @returns for each sequence `{ tokens, table }`: its scores by scale, forward and backward, NaN
 *   where unknown
 */
export function merge(found, prior) {
  const scores = new Map();
  found.forEach((directions, scale) =>
    directions.forEach((hypotheses, direction) => {
      for (const { tokens, score } of hypotheses) {
        const key = tokens.join();
        if (!scores.has(key)) {
          scores.set(key, { tokens, table: new Float64Array(2 * found.length).fill(NaN) });
        }
        scores.get(key).table[2 * scale + direction] = score + prior(tokens);
      }
    }),
  );
  return [...scores.values()];
}

const isComplete = ({ table }) => !table.some(Number.isNaN);
const known = ({ table }) => table.filter((score) => !Number.isNaN(score));

/**
 * Fill in unknown scores until it is certain which sequences are the best.
 *
 * An unknown score is at most zero, so a sequence whose known scores sum to less than the sum of
 * all scores of `topK` others need not be scored further. All unknown scores of the most promising
 * sequences, or else one of each, are computed in a decoder call per scale, again and again until
 * none is left.
 *
 * @param scores what `merge` returns; the tables are changed
 * @param models the decoder at each scale
 * @param directions left to right and right to left
 * @param isValid tells whether a sequence is valid
 * @param options resolved options
 * @param prior added to each score
 * @param {number} margin log-probability by which a sequence may be behind the best ones and still
 *   counts as one of them
 * @returns the sequences that may be among the best; their scores are all known
 */
export async function rescore(scores, models, directions, isValid, options, prior, margin = 0) {
  for (;;) {
    const missing = openSequences(scores, isValid, options, margin);
    if (!missing.length) return scores.filter(isComplete);
    for (const [scale, model] of models.entries()) {
      const entries = missing.filter(({ cell }) => cell >> 1 === scale);
      if (!entries.length) continue;
      await scoreEntries(model, entries, directions, options.lengthPower, prior);
    }
  }
}

/** Return what to compute next: `{ sequence, cell }` with the index of a score in its table. */
function openSequences(scores, isValid, { topK, lengthPower }, margin) {
  const valid = scores.filter(isValid);
  const areValid = valid.length >= topK;
  const candidates = areValid ? valid : scores;
  const leastOf = ({ tokens, table }) =>
    sum(table) - (margin * table.length) / (tokens.length + 1) ** lengthPower;
  const totals = candidates.filter(isComplete).map(leastOf);
  totals.sort((one, other) => other - one);
  const bound = areValid && totals.length >= topK ? totals[topK - 1] : -Infinity;
  const unknown = candidates.filter((one) => !isComplete(one) && sum(known(one)) >= bound);
  const means = new Map(unknown.map((one) => [one, sum(known(one)) / known(one).length]));
  unknown.sort((one, other) => means.get(other) - means.get(one));
  const leaders = areValid ? Math.max(0, topK - totals.length) : unknown.length;
  // Once the leaders are known, the bound excludes most of the others.
  return unknown.slice(0, leaders || unknown.length).flatMap((sequence) => {
    const cells = [...sequence.table.keys()].filter((cell) => Number.isNaN(sequence.table[cell]));
    return cells.slice(0, leaders ? cells.length : 1).map((cell) => ({ sequence, cell }));
  });
}

/** Compute scores with one decoder call. */
async function scoreEntries(model, entries, directions, lengthPower, prior) {
  const sequences = entries.map(({ sequence, cell }) => {
    const { start, end, reverse } = directions[cell & 1];
    return [start, ...(reverse ? sequence.tokens.toReversed() : sequence.tokens), end];
  });
  const steps = Math.max(...sequences.map((tokens) => tokens.length)) - 1;
  // The decoder is causal: any token will do as padding after a sequence.
  const inputs = sequences.map((tokens) =>
    Array.from({ length: steps }, (_, step) => tokens[step] ?? directions[0].end),
  );
  const origin = entries.map(() => 0);
  const { logProbs } = await model.step(inputs, model.start(), origin);
  entries.forEach(({ sequence, cell }, beam) => {
    const tokens = sequences[beam];
    let total = 0;
    for (let step = 1; step < tokens.length; step++)
      total += logProbs(beam, step - 1)[tokens[step]];
    sequence.table[cell] = total / (tokens.length - 1) ** lengthPower + prior(sequence.tokens);
  });
}

/**
 * Return the best sequences, valid ones first; ties go by token ids. Their score includes the prior,
 * `forward` and `backward` do not.
 */
export function rank(scores, isValid, options, prior) {
  const ranked = scores.map(({ tokens, table }) => {
    const scales = table.length / 2;
    const [forward, backward] = [0, 1].map(
      (direction) => sum(table.filter((_, cell) => (cell & 1) === direction)) / scales,
    );
    const score = options.rescore ? forward + backward : Math.max(...known({ table }));
    const withoutPrior = (value) => (Number.isNaN(value) ? null : value - prior(tokens));
    return {
      tokens,
      score,
      forward: withoutPrior(forward),
      backward: withoutPrior(backward),
    };
  });
  const isWorse = (one) => (isValid(one) ? 0 : 1);
  ranked.sort(
    (one, other) =>
      isWorse(one) - isWorse(other) ||
      other.score - one.score ||
      compareTokens(one.tokens, other.tokens),
  );
  return ranked.slice(0, options.topK);
}

function compareTokens(one, other) {
  const place = one.findIndex((token, index) => token !== other[index]);
  if (place < 0) return one.length - other.length;
  return place >= other.length ? 1 : one[place] - other[place];
}
