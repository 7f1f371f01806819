// Symbols that the user has chosen, which further results keep.

// A choice is tied to its place in the tokens that it was made in. These are aligned with the
// tokens of a later result. The choice is kept if the symbol there is one that it replaced
// before, or has the choice among its alternatives: the ink has not become something else.

export class Corrections {
  #choices = [];

  clear() { this.#choices = []; }

  choose({ tokens, symbols }, index, token) {
    this.#choices = this.#choices.filter((one) => one.index !== index || one.tokens !== tokens);
    const symbol = symbols.find((one) => one.index === index);
    this.#choices.push({ tokens, index, token, replaced: new Set([symbol.token, token]) });
  }

  // Returns the tokens of a result with all choices that apply, and the indices of these.
  apply({ tokens, symbols }) {
    const couldBe = (token, index) => symbols.some((one) =>
      one.index === index && one.alternatives.some((other) => other.token === token));
    const chosen = new Map();
    for (const choice of this.#choices) {
      const index = choice.tokens === tokens
        ? choice.index : align(choice.tokens, tokens, couldBe)[choice.index];
      const symbol = symbols.find((one) => one.index === index);
      if (!symbol) continue;
      const isCandidate = symbol.alternatives.some((one) => one.token === choice.token);
      if (!isCandidate && !choice.replaced.has(symbol.token)) continue;
      Object.assign(choice, { tokens, index });
      choice.replaced.add(symbol.token);
      chosen.set(index, choice.token);
    }
    return { tokens: tokens.map((token, index) => chosen.get(index) ?? token), chosen };
  }
}

const CANDIDATE = 0.5; // cost of a token in the place of one that it could be
const OTHER = 1.5; // cost of any other token

// For each token of the first list, the index of its partner in the second; -1 if it is deleted.
// `couldBe(token, index)` tells whether the second list could have a token at an index.
export function align(first, second, couldBe = () => false) {
  const costs = Array.from({ length: first.length + 1 }, (_, i) =>
    Array.from({ length: second.length + 1 }, (_, j) => i + j));
  const change = (i, j) => {
    if (first[i - 1] === second[j - 1]) return costs[i - 1][j - 1];
    return costs[i - 1][j - 1] + (couldBe(first[i - 1], j - 1) ? CANDIDATE : OTHER);
  };
  for (let i = 1; i <= first.length; i++)
    for (let j = 1; j <= second.length; j++)
      costs[i][j] = Math.min(change(i, j), costs[i - 1][j] + 1, costs[i][j - 1] + 1);
  const partners = Array(first.length).fill(-1);
  // Of equal alignments the leftmost: formulas grow to the right.
  for (let i = first.length, j = second.length; i && j;) {
    if (costs[i][j] === costs[i][j - 1] + 1) j--;
    else if (costs[i][j] === change(i, j)) partners[--i] = --j;
    else i--;
  }
  return partners;
}
