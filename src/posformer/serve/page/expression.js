// What the page shows and copies of LaTeX, without a server.

import { LatexError } from "./recognizer/errors.js";
import { convert, FORMATS } from "./recognizer/formats.js";
import { tokenize } from "./recognizer/tokens.js";
import { parse } from "./recognizer/tree.js";

export { convert, FORMATS, tokenize };

// Returns `mathml`, `text` in a format, and what is wrong with the LaTeX as `problem`.
export function describe(latex, format = null) {
  const tokens = tokenize(latex);
  const text = format ? convert(tokens, format) : null;
  let problem = null;
  try {
    parse(tokens);
  } catch (error) {
    if (!(error instanceof LatexError)) throw error;
    problem = `${error.message}.`;
  }
  return { latex, mathml: convert(tokens, "mathml"), trees: "", text, problem };
}
