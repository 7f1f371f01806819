/** The constraint of the search to expressions that LaTeX accepts. */

import { Automaton } from "./automaton.js";

const NEVER = 2 ** 52;

/** Allows the tokens of a vocabulary wherever the grammar does. */
export class GrammarConstraint {
  #automaton;
  #special;
  #growth; // by mode: by how much each token changes the number of tokens needed to finish

  constructor(vocabulary) {
    this.#automaton = new Automaton(vocabulary.tokens);
    this.#special = vocabulary.size - vocabulary.tokens.length; // they come first
    const { classOf, growth, complete } = this.#automaton;
    this.#growth = growth.map((changes, mode) => {
      const row = new Float64Array(vocabulary.size).fill(NEVER);
      classOf.forEach((number, token) => (row[this.#special + token] = changes[number] ?? NEVER));
      // The end is not a token: it must fit even if no more tokens may follow.
      if (complete[mode]) row[vocabulary.sos] = row[vocabulary.eos] = -1;
      return row;
    });
  }

  /** Return the state before the first token. */
  start(reverse) {
    return this.#automaton.start(reverse);
  }

  /** Return the state after another token, which must be allowed. */
  advance(state, token) {
    return this.#automaton.advance(state, token - this.#special);
  }

  /** Return a function that tells whether a token fits into the tokens that remain. */
  allowed(state, remaining) {
    const growth = this.#growth[state.mode];
    const room = Math.min(remaining - state.missing, NEVER);
    return (token) => growth[token] < room;
  }
}
