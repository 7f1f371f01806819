/** LaTeX text to tokens and back. */

import { parse } from "./tree.js";

const TOKEN = /\\(?:begin|end)\s*\{\s*[A-Za-z]+\*?\s*\}|\\[A-Za-z]+|\\[^\sA-Za-z]|\S/gu;
const INKLESS = new Set(["\\left", "\\right"]);
const COMMAND_WORD = /^\\[A-Za-z]+$/;
const LETTER = /^\p{Alphabetic}/u;
const ESCAPED = { "%": "\\%", "#": "\\#", $: "\\$" };

/**
 * Return tokens that any LaTeX engine sets in lines.
 *
 * LaTeX ignores a line break outside of environments, which captions may have: an array is put
 * around such tokens. An array without column letters gets them.
 */
export function inLines(tokens) {
  const tree = parse(tokens, { lenient: true });
  const named = new Map(); // column letters by the index of their array
  for (const row of tree.rows) {
    if (row.owner?.token === "\\begin{array}" && row.owner.option === null) {
      named.set(row.owner.index, columns(row));
    }
  }
  const inside = tokens.flatMap((token, index) => [token, ...(named.get(index) ?? [])]);
  const [root] = tree.rows;
  if (!root.nodes.some(({ token }) => token === "\\\\")) return inside;
  return ["\\begin{array}", ...columns(root), ...inside, "\\end{array}"];
}

function columns(row) {
  const count = Math.max(...row.lines.map((cells) => cells.length));
  return ["{", ..."l".repeat(count), "}"];
}

/** Join tokens into text that any LaTeX engine renders, with a space only where one is needed. */
export function toLatex(tokens) {
  let text = "";
  let previous = "";
  for (const token of tokens) {
    if (LETTER.test(token) && COMMAND_WORD.test(previous)) text += " ";
    else if (previous === "\\\\" && (token === "[" || token === "*")) text += "{}";
    else if (token === "." && previous === ".") text += " ";
    text += Object.hasOwn(ESCAPED, token) ? ESCAPED[token] : token;
    previous = token;
  }
  return text;
}

/** Split LaTeX as the recognizer writes it into tokens; macros and spacing stay as they are. */
export function tokenize(text) {
  const tokens = (text.match(TOKEN) ?? []).map((token) => token.replace(/\s+/g, ""));
  return tokens.filter((token) => !INKLESS.has(token));
}
