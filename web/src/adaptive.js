/**
 * Adaptive search: one scale first, and the others only where that leaves a doubt.
 *
 * The first pass searches at one scale: from left to right with beams, from right to left greedily.
 * Its hypotheses are scored in both directions. Where the best one is ahead of all others by a
 * margin, it is the result. Elsewhere the hypotheses within the margin, and only these, are scored
 * at the other scales, too.
 */

import { beamSearch, bothDirections } from "./beam.js";
import { merge, rank, rescore } from "./bidirectional.js";

const anyTokens = () => true;

/**
 * Search an image at one scale, and score what is doubtful at all scales.
 *
 * @param encode a function that returns the decoder at a scale, from 0
 * @param options resolved options
 * @param vocabulary special tokens
 * @param rules see `beamSearch`, and `prior`: see `NgramModel`
 * @param {number} margin log-probability by which the best hypothesis must be ahead
 * @returns the best hypothesis `{ tokens, score, forward, backward }` in a list; none without any
 */
export async function adaptiveSearch(encode, options, vocabulary, rules, margin) {
  const directions = bothDirections(vocabulary);
  const model = await encode(0);
  const first = await firstPass(model, options, directions, rules, margin);
  const left = near(first, margin, options.lengthPower);
  const { prior } = rules;
  if (left.length < 2 || options.scales === 1) return rank(left, anyTokens, options, prior);
  const models = [model];
  for (let scale = 1; scale < options.scales; scale++) models.push(await encode(scale));
  const scores = await secondPass(left, models, options, directions, prior);
  return rank(scores, anyTokens, options, prior);
}

/** Search at one scale; return the sequences that may be within the margin, with all scores. */
async function firstPass(model, options, directions, rules, margin) {
  const searched = [directions[0], { ...directions[1], greedy: true }];
  const found = merge([await beamSearch(model, options, searched, rules)], rules.prior);
  return rescore(found, [model], directions, anyTokens, options, rules.prior, margin);
}

/** Score sequences of the first pass at all scales; return those that may be the best. */
function secondPass(left, models, options, directions, prior) {
  const expanded = left.map(({ tokens, table }) => {
    const scores = new Float64Array(2 * models.length).fill(NaN);
    scores.set(table);
    return { tokens, table: scores };
  });
  return rescore(expanded, models, directions, anyTokens, options, prior);
}

/**
 * Return the sequences that are behind the best one by less than the margin at the first scale.
 *
 * The difference is one of log-probabilities, at the length of the best sequence.
 */
function near(scores, margin, lengthPower) {
  if (!scores.length) return [];
  const meanOf = ({ table: [forward, backward] }) => (forward + backward) / 2;
  const best = scores.reduce((one, other) => (meanOf(other) > meanOf(one) ? other : one));
  const reach = margin / (best.tokens.length + 1) ** lengthPower;
  return scores.filter((one) => one === best || meanOf(best) - meanOf(one) < reach);
}
