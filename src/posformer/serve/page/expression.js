// What the page shows and copies of LaTeX, without a server.

import { toAsciiMath } from "./asciimath.js";
import { mathText } from "./mathml.js";
import { LatexError, LINE_BREAK, parse, tokenize, toLatex } from "./tree.js";
import { toTypst } from "./typst.js";
import { toUnicode } from "./unicode.js";

function toMarkdown(tokens) {
  const fence = tokens.includes(LINE_BREAK) ? "$$" : "$";
  return `${fence}${toLatex(tokens)}${fence}`;
}

export const FORMATS = {
  latex: toLatex,
  mathml: mathText,
  markdown: toMarkdown,
  typst: toTypst,
  asciimath: toAsciiMath,
  unicode: toUnicode,
};

// Returns `mathml`, `text` in a format, and what is wrong with the LaTeX as `problem`.
export function describe(latex, format = null) {
  const tokens = tokenize(latex);
  const text = format ? FORMATS[format](tokens) : null;
  let problem = null;
  try {
    parse(tokens);
  } catch (error) {
    if (!(error instanceof LatexError)) throw error;
    problem = `${error.message}.`;
  }
  return { latex, mathml: mathText(tokens), trees: "", text, problem };
}
