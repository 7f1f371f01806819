/** The output formats. To add one, write a function from tokens to text and add a line here. */

import { toAsciimath } from "./asciimath.js";
import { ConfigError } from "./errors.js";
import { toMathml } from "./mathml.js";
import { inLines, toLatex, tokenize } from "./tokens.js";
import { toTypst } from "./typst.js";
import { toUnicode } from "./unicode.js";

const latex = (tokens) => toLatex(inLines(tokens));

/** A function from tokens in caption form to one line of text, by the name of the format. */
const WRITERS = {
  latex,
  mathml: (tokens) => toMathml(inLines(tokens)),
  markdown: (tokens) => {
    const fence = tokens.includes("\\\\") ? "$$" : "$";
    return fence + latex(tokens) + fence;
  },
  typst: toTypst,
  asciimath: toAsciimath,
  unicode: toUnicode,
};

/** The names of the formats. */
export const FORMATS = Object.freeze(Object.keys(WRITERS));

/** Raise a ConfigError for an unknown format. */
export function checkFormat(format) {
  if (!Object.hasOwn(WRITERS, format)) {
    throw new ConfigError(`unknown format '${format}'; the formats are ${FORMATS.join(", ")}`);
  }
}

/**
 * Write an expression in another format.
 *
 * @param {string | readonly string[]} source LaTeX as the recognizer writes it, or tokens in
 *   caption form; it may be malformed
 * @param {string} format one of `FORMATS`
 */
export function convert(source, format) {
  checkFormat(format);
  return WRITERS[format](typeof source === "string" ? tokenize(source) : source);
}
