// Writes an expression tree as text: what the output formats have in common. A port of
// `posformer.latex.tree_text`, whose tables it uses.

import { lookUp, tokensOf } from "./recognizer/symbols.js";
import { parse, Row, SEPARATORS } from "./recognizer/tree.js";
import { CHARACTERS, CLOSERS, kindOf, OPENERS } from "./tables.js";

export const NAMES = new Set([...tokensOf("function", "limit"), "\\bmod"]);

const CALLABLE = tokensOf("letter", "greek", "function");
const SIGNS = new Set(["+", "-", "\\pm", "\\mp"]);
const BEFORE_SIGN = tokensOf("operator", "relation", "arrow", "punctuation");
const NEGATED = tokensOf("relation", "arrow");
const NEGATION = "\u0338";
const SLOT = /([#@]\d)/;

export const isNumber = (token) => /^\d$/.test(token) || token === ".";

// One symbol, or one number, without scripts.
export function isPlain(nodes) {
  if (nodes.some((node) => node.arguments.length || node.scripts.length || SEPARATORS.has(node.token)))
    return false;
  return nodes.length === 1 || (nodes.length > 0 && nodes.every((node) => isNumber(node.token)));
}

export const isPrimes = (row) =>
  row.nodes.length > 0 && row.nodes.every((node) => node.token === "\\prime" && !node.scripts.length);

// The sign of what follows, and not an operator between two terms.
function isSign(nodes, number) {
  if (!SIGNS.has(nodes[number].token) || nodes[number].scripts.length) return false;
  const before = nodes[number - 1]?.token;
  return number === 0 || OPENERS.has(before) || BEFORE_SIGN.has(before) || SEPARATORS.has(before);
}

// The indices of the tokens that open or close nothing; any closer fits any opener.
function unpairedDelimiters(nodes) {
  const opened = [];
  const unpaired = new Set();
  for (const { token, index } of nodes) {
    if (OPENERS.has(token)) opened.push(index);
    else if (CLOSERS.has(token) && opened.pop() === undefined) unpaired.add(index);
  }
  return new Set([...unpaired, ...opened]);
}

export const interleave = (parts, separator) =>
  parts.flatMap((part, number) => (number ? [separator, part] : [part]));

// A format overrides the methods that differ. Parts are text, nodes, rows or lists of nodes.
export class TreeText {
  // Tables of texts of symbols, and of templates: `#1` is the first argument, `@1` the same in
  // parentheses unless it is plain, 0 the optional argument.
  constructor({ symbols, templates }) {
    this.symbols = symbols;
    this.templates = templates;
  }

  write(tokens) {
    return this.#text(this.expression(parse(tokens, { lenient: true }).rows[0]));
  }

  #text(parts) {
    return parts.map((part) => {
      if (typeof part === "string") return part;
      if (Array.isArray(part)) return this.#text(this.line(part));
      if (part instanceof Row) return this.#text(this.line(part.nodes));
      return this.#text([...this.base(part), ...this.scripts(part)]);
    }).join("");
  }

  symbol(token) {
    if (Object.hasOwn(this.symbols, token)) return this.symbols[token];
    return CHARACTERS.get(token) ?? (token.length < 2 ? token : this.literal(token));
  }

  base(node) {
    if (node.isEnvironment) return this.environment(node);
    const template = (node.option && lookUp(this.templates, `${node.token}[`))
      || (node.arguments.length && lookUp(this.templates, node.token));
    if (template) return this.filled(template, node);
    return node.arguments.length ? node.arguments : [this.symbol(node.token)];
  }

  filled(template, node) {
    const rows = [node.option, ...node.arguments];
    return template.split(SLOT).flatMap((piece) => {
      if (!SLOT.test(piece)) return [piece];
      const row = rows[Number(piece[1])];
      if (!row) return [];
      return piece[0] === "@" ? this.grouped(row) : this.argument(row);
    });
  }

  argument(row) { return [row]; }

  grouped(row) { return isPlain(row.nodes) ? [row] : ["(", ...this.argument(row), ")"]; }

  line(nodes, whole = false) {
    const marked = this.marked(nodes, whole);
    return nodes.flatMap((node, number) => {
      const parts = number && !isSign(nodes, number - 1) ? [this.space(nodes[number - 1], node)] : [];
      return marked.has(node.index)
        ? [...parts, marked.get(node.index), ...this.scripts(node)]
        : [...parts, node];
    });
  }

  // The text of symbols that mean something else where they stand, by their index.
  marked(nodes) {
    const texts = new Map();
    const unpaired = unpairedDelimiters(nodes);
    for (const { token, index } of nodes)
      if (unpaired.has(index)) texts.set(index, this.literal(CHARACTERS.get(token) ?? token));
    nodes.slice(1).forEach((node, number) => {
      const negation = nodes[number];
      if (negation.token !== "\\not" || !NEGATED.has(node.token) || negation.scripts.length) return;
      texts.set(negation.index, "");
      texts.set(node.index, `${CHARACTERS.get(node.token) ?? node.token}${NEGATION}`);
    });
    return texts;
  }

  space(left, { token }) {
    if (left.token === "\\not" && !left.scripts.length) return "";
    if (CLOSERS.has(token) || [",", ";", "!"].includes(token)) return "";
    if (left.scripts.length) return " ";
    if (OPENERS.has(left.token) || (isNumber(left.token) && isNumber(token))) return "";
    return token === "(" && CALLABLE.has(left.token) ? "" : " ";
  }
}

// The depth of delimiters before each node that is not marked.
export function* depths(nodes, marked) {
  let depth = 0;
  for (const node of nodes) {
    if (!marked.has(node.index)) depth += OPENERS.has(node.token) - CLOSERS.has(node.token);
    yield [node, depth];
  }
}

export const isBar = (token) => kindOf(token) === "bar";
