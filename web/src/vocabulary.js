/** The tokens of a model and their ids: `<pad>` 0, `<sos>` 1, `<eos>` 2, then the tokens. */

import { ModelError } from "./errors.js";

const SPECIAL = 3;

export class Vocabulary {
  pad = 0;
  sos = 1;
  eos = 2;

  /** @param {readonly string[]} tokens without the special ones */
  constructor(tokens) {
    this.tokens = Object.freeze([...tokens]);
    this.size = tokens.length + SPECIAL;
    if (
      tokens.some((token) => !token || /\s/.test(token)) ||
      new Set(tokens).size < tokens.length
    ) {
      throw new ModelError("vocabulary.txt: a line is empty, repeated or contains white space");
    }
  }

  /** Read a text with one token per line. */
  static parse(text) {
    const lines = text
      .replace(/^\ufeff/, "")
      .replace(/\n$/, "")
      .split("\n");
    return new Vocabulary(lines.map((line) => line.replace(/\r$/, "")));
  }

  has(token) {
    return this.tokens.includes(token);
  }

  /** Return the tokens of ids, without the special ones. */
  decode(ids) {
    return ids.filter((id) => id >= SPECIAL).map((id) => this.tokens[id - SPECIAL]);
  }
}
