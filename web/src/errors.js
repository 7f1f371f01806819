/**
 * Errors that a user can cause or fix; all others are bugs. The message is one line that says what
 * is wrong and where, as in Python.
 */

/** Base class of all errors of this package. */
export class PosformerError extends Error {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** An option that is unknown or has an invalid value. */
export class ConfigError extends PosformerError {}

/** An image that cannot be read. */
export class ImageError extends PosformerError {}

/** An image without ink, or without a formula. */
export class NoInkError extends ImageError {}

/** Strokes that cannot be read or rendered. */
export class InkError extends PosformerError {}

/** A model that is missing, damaged, too new, or of a kind that only Python runs. */
export class ModelError extends PosformerError {}

/** LaTeX that cannot be parsed; `token` and `number` (from 1) tell where, if known. */
export class LatexError extends PosformerError {
  constructor(reason, token = null, number = null) {
    const place = number === null ? "" : ` (token ${number})`;
    super(token === null ? reason : `${token}${place} ${reason}`);
    this.token = token;
    this.number = number;
  }
}

/** The best hypothesis is a guess: most likely there is no formula. */
export class NotReadableError extends PosformerError {
  /** @param {{latex: string, confidence: number}[]} alternatives all hypotheses, best first */
  constructor(alternatives) {
    super("not readable");
    this.alternatives = alternatives;
  }
}
