/** Adaptive search: greedy first, and wider only where that leaves a doubt. */

import { beamSearch, bothDirections } from "./beam.js";
import { merge, rank, rescore } from "./bidirectional.js";

/**
 * Search an image at one scale, and at all scales if the result is not certain.
 *
 * @param models a function that returns the decoder at a scale, from 0
 * @param options resolved options
 * @param vocabulary special tokens
 * @param rules see `beamSearch`
 * @param {number} threshold log-probability from which a result that both directions found is
 *   certain
 * @returns one hypothesis `{ tokens, score, forward, backward }` in a list
 */
export async function adaptiveSearch(models, options, vocabulary, rules, threshold) {
  const greedy = { ...options, beam: 1, finished: 1 };
  const directions = bothDirections(vocabulary);
  const opened = [await models(0)];
  const first = await beamSearch(opened[0], greedy, directions, rules);
  const agreed = agreement(first);
  if (agreed && total(agreed, options.lengthPower) >= threshold) return [agreed];
  const found = [first];
  for (let scale = 1; scale < options.scales; scale++) {
    opened.push(await models(scale));
    found.push(await beamSearch(opened[scale], greedy, directions, rules));
  }
  const isValid = () => true;
  const scores = await rescore(merge(found), opened, directions, isValid, options);
  return rank(scores, isValid, options);
}

/** Return the sequence that both directions found, with its scores; null if they disagree. */
function agreement([[forward], [backward]]) {
  if (!forward || !backward || forward.tokens.join() !== backward.tokens.join()) return null;
  return {
    tokens: forward.tokens,
    score: forward.score + backward.score,
    forward: forward.score,
    backward: backward.score,
  };
}

/** The log-probability of a sequence, averaged over both directions. */
function total({ tokens, score }, lengthPower) {
  return (score / 2) * (tokens.length + 1) ** lengthPower;
}
