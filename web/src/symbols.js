/** The symbol table, generated from Python's; see `scripts/write_web_tables.py`. */

import tables from "./tables.js";

/** For each token its class. */
export const KINDS = tables.kinds;

/** For tokens with arguments the positions of these and of the optional one: `[arguments, option]`. */
export const SIGNATURES = tables.signatures;

const ENVIRONMENT = /^\\(begin|end)\{([A-Za-z]+\*?)\}$/;

/** Return all tokens of some classes. */
export function tokensOf(...kinds) {
  return new Set(Object.keys(KINDS).filter((token) => kinds.includes(KINDS[token])));
}

/** Return the symbols that `\begin{…}` or `\end{…}` draws: `\{` for `\begin{cases}`. */
export function fenceOf(token) {
  const match = ENVIRONMENT.exec(token);
  if (!match) return [];
  const fences = tables.fences[match[2].replace(/\*$/, "")] ?? ["", ""];
  return fences[match[1] === "begin" ? 0 : 1].split(" ").filter(Boolean);
}

/** Return the value of a table for a token, or undefined; never what objects inherit. */
export function lookUp(table, token) {
  return Object.hasOwn(table, token) ? table[token] : undefined;
}
