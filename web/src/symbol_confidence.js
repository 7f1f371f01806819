/** Confidence and alternatives of each symbol of a result; see `runtime/symbol_confidence.py`. */

import { SIGNATURES, lookUp, tokensOf } from "./symbols.js";
import { isValid } from "./syntax.js";

const MAX_ALTERNATIVES = 5;
const LEAST_PROBABILITY = 0.005; // of an alternative
const STRUCTURE = tokensOf("script", "structure");
const ENVIRONMENT = /^\\(begin|end)\{[A-Za-z]+\*?\}$/;

/**
 * Return the confidence and the alternatives of each symbol of an expression.
 *
 * @param runtime the loaded model
 * @param image uint8 plane at the model's working size
 * @param {string[]} tokens the expression
 * @returns `{ index, token, confidence, alternatives }` for each token that is not structure
 */
export async function scoreSymbols(runtime, image, tokens) {
  if (!tokens.length) return [];
  const { vocabulary } = runtime;
  const special = vocabulary.size - vocabulary.tokens.length;
  const ids = tokens.map((token) => special + vocabulary.tokens.indexOf(token));
  const probabilities = await tokenProbabilities(runtime, image, ids);
  return tokens.flatMap((token, index) => {
    if (isStructure(token)) return [];
    const shares = probabilities[index];
    const alternatives = likely(shares, vocabulary, tokens, index);
    return [{ index, token, confidence: rounded(shares[ids[index]]), alternatives }];
  });
}

/** The geometric mean of the distributions of both directions at each place. */
async function tokenProbabilities(runtime, image, ids) {
  const { sos, eos } = runtime.vocabulary;
  const sequences = [[sos, ...ids.slice(0, -1)]];
  if ((runtime.config.decoder?.directions ?? "both") === "both") {
    sequences.push([eos, ...ids.slice(1).reverse()]);
  }
  const model = await runtime.encode(image);
  const { logProbs } = await model.step(sequences, model.start(), sequences.map(() => 0));
  return ids.map((_, index) => {
    const rows = [logProbs(0, index)];
    if (sequences.length === 2) rows.push(logProbs(1, ids.length - 1 - index));
    const mean = Float64Array.from(rows[0], (first, id) =>
      rows.reduce((sum, row) => sum + row[id], 0) / rows.length,
    );
    const most = mean.reduce((one, other) => Math.max(one, other));
    const shares = mean.map((value) => Math.exp(value - most));
    const total = shares.reduce((one, other) => one + other);
    return shares.map((share) => share / total);
  });
}

function likely(shares, vocabulary, tokens, index) {
  const found = [];
  const order = Array.from(shares.keys()).sort((one, other) => shares[other] - shares[one]);
  for (const id of order) {
    if (shares[id] < LEAST_PROBABILITY || found.length === MAX_ALTERNATIVES) break;
    const [token] = vocabulary.decode([id]);
    if (token && token !== tokens[index] && canReplace(tokens, index, token)) {
      found.push({ token, confidence: rounded(shares[id]) });
    }
  }
  return found;
}

/** Whether another symbol takes the same arguments and is accepted by LaTeX in this place. */
function canReplace(tokens, index, token) {
  const signature = (one) => String(lookUp(SIGNATURES, one));
  if (isStructure(token) || signature(token) !== signature(tokens[index])) return false;
  return isValid(tokens.with(index, token));
}

const isStructure = (token) => STRUCTURE.has(token) || ENVIRONMENT.test(token);
const rounded = (share) => Math.round(share * 1e6) / 1e6;
