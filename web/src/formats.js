/** The output formats. */

import { ConfigError } from "./errors.js";
import { inLines, toLatex } from "./tokens.js";

const latex = (tokens) => toLatex(inLines(tokens));

/** A function from tokens in caption form to one line of text, by the name of the format. */
export const FORMATS = { latex, mathml: () => "" };

/** Write an expression, as tokens in caption form, in another format. */
export function convert(tokens, format) {
  if (!Object.hasOwn(FORMATS, format)) {
    const known = Object.keys(FORMATS).join(", ");
    throw new ConfigError(`unknown format '${format}'; the formats are ${known}`);
  }
  return FORMATS[format](tokens);
}
