// Tables of the output formats, which the server or `build-web` writes as JSON.

import { fenceOf, KINDS, lookUp } from "./recognizer/symbols.js";

export const TABLES = await (await fetch(new URL("latex.json", import.meta.url))).json();

export const CHARACTERS = new Map(Object.entries(TABLES.characters));

export const kindOf = (token) => lookUp(KINDS, token) ?? "";

const PAIRS = Object.entries(TABLES.delimiters).filter(([opener, closer]) => opener !== closer);
export const OPENERS = new Set(PAIRS.map(([opener]) => opener));
export const CLOSERS = new Set(PAIRS.map(([, closer]) => closer));

// The characters before and behind the lines of an environment.
export function fences(token) {
  const text = (side) => fenceOf(side).map((one) => CHARACTERS.get(one) ?? one).join("");
  return [text(token), text(token.replace("\\begin", "\\end"))];
}
