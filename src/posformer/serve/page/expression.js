// What the page shows and copies of LaTeX, without a server.

import { toAsciiMath } from "./asciimath.js";
import { mathText } from "./mathml.js";
import { LatexError } from "./recognizer/errors.js";
import { inLines, toLatex as joined } from "./recognizer/tokens.js";
import { parse } from "./recognizer/tree.js";
import { toTypst } from "./typst.js";
import { toUnicode } from "./unicode.js";

const ENVIRONMENT = String.raw`\\(begin|end)\s*\{\s*([A-Za-z]+\*?)\s*\}`;
const TOKEN = new RegExp(String.raw`${ENVIRONMENT}|\\[A-Za-z]+|\\[^\sA-Za-z]|\S`, "gu");

export const tokenize = (text) => Array.from(text.matchAll(TOKEN), ([token, side, name]) =>
  (side ? `\\${side}{${name}}` : token));

export const toLatex = (tokens) => joined(inLines(tokens));

function toMarkdown(tokens) {
  const fence = tokens.includes("\\\\") ? "$$" : "$";
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
