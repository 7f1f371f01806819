/**
 * Writing an expression tree as text: what the output formats have in common.
 *
 * A format is a subclass of `TreeText` with two tables, the text of symbols and the templates of
 * commands with arguments, and a few rules. Parts are strings, nodes, rows, or lists of nodes that
 * are still to be written. Nothing recurses.
 */

import { fenceOf, lookUp, tokensOf } from "./symbols.js";
import tables from "./tables.js";
import { Node, Row, SEPARATORS, parse } from "./tree.js";

/** The Unicode text of every symbol that is a command. */
export const CHARACTERS = tables.characters;

export const OPENERS = new Set(
  Object.keys(tables.delimiterPairs).filter((opener) => tables.delimiterPairs[opener] !== opener),
);
export const CLOSERS = new Set([...OPENERS].map((opener) => tables.delimiterPairs[opener]));

const PRIME = "\\prime";
const NOT = "\\not";
const CALLABLE = tokensOf("letter", "greek", "function");
const SIGNS = new Set(["+", "-", "\\pm", "\\mp"]);
const BEFORE_SIGN = new Set([
  ...OPENERS,
  ...tokensOf("operator", "relation", "arrow", "punctuation"),
  ...SEPARATORS,
]);
export const NEGATABLE = tokensOf("relation", "arrow");
const NEGATION = "\u0338";
const SLOT = /^[#@]\d$/;

/** Whether a token is a part of a number. */
export function isNumber(token) {
  return token === "." || /^\p{Nd}+$/u.test(token);
}

/** Whether nodes are one symbol, or one number, without scripts. */
export function isPlain(nodes) {
  const isBare = ({ arguments: rows, scripts, token }) =>
    !rows.length && !scripts.length && !SEPARATORS.has(token);
  if (!nodes.every(isBare)) return false;
  return nodes.length === 1 || (nodes.length > 0 && nodes.every(({ token }) => isNumber(token)));
}

/** Whether a row consists of primes. */
export function isPrimes({ nodes }) {
  return nodes.length > 0 && nodes.every((node) => node.token === PRIME && !node.scripts.length);
}

/** Whether a node is the sign of what follows, and not an operator between two terms. */
function isSign(nodes, number) {
  if (!SIGNS.has(nodes[number].token) || nodes[number].scripts.length) return false;
  return number === 0 || BEFORE_SIGN.has(nodes[number - 1].token);
}

/** The indices of the tokens that open or close nothing; any closer fits any opener. */
function unpairedDelimiters(nodes) {
  const opened = [];
  const unpaired = [];
  for (const { token, index } of nodes) {
    if (OPENERS.has(token)) opened.push(index);
    else if (CLOSERS.has(token) && opened.pop() === undefined) unpaired.push(index);
  }
  return [...unpaired, ...opened];
}

/** The characters before and behind the lines of an environment; "" for none. */
export function fences({ token }) {
  const characters = (side) => fenceOf(side).map((one) => lookUp(CHARACTERS, one) ?? one);
  return [token, token.replace("\\begin", "\\end")].map((side) => characters(side).join(""));
}

/** Return parts with a separator between them. */
export function interleave(parts, separator) {
  return parts.flatMap((part, number) => (number ? [separator, part] : [part]));
}

export class TreeText {
  /** @param format `{ symbols, templates }`; `#1` stands for an argument, `@1` for
   *   the same in parentheses unless it is plain, 0 for the optional one */
  constructor({ symbols, templates }) {
    this.symbols = symbols;
    this.templates = templates;
  }

  /** Return the text of tokens in caption form, which may be malformed. */
  write(tokens) {
    const pieces = [];
    const stack = this.expression(parse(tokens, { lenient: true }).rows[0]).reverse();
    while (stack.length) {
      const part = stack.pop();
      if (typeof part === "string") pieces.push(part);
      else if (part instanceof Node) stack.push(...this.node(part).reverse());
      else stack.push(...this.line(part instanceof Row ? part.nodes : part).reverse());
    }
    return pieces.join("");
  }

  node(node) {
    return [...this.base(node), ...this.scripts(node)];
  }

  /** Return the text of a symbol. */
  symbol(token) {
    const text = lookUp(this.symbols, token) ?? lookUp(CHARACTERS, token);
    return text ?? (token.length < 2 ? token : this.literal(token));
  }

  /** Return the parts of a node without its scripts. */
  base(node) {
    if (node.isEnvironment) return this.environment(node);
    const template = this.template(node);
    if (template) return this.filled(template, node);
    return node.arguments.length ? [...node.arguments] : [this.symbol(node.token)];
  }

  template(node) {
    const withOption = node.option ? lookUp(this.templates, `${node.token}[`) : undefined;
    return withOption ?? (node.arguments.length ? lookUp(this.templates, node.token) : undefined);
  }

  /** Return the parts of a template with the arguments of a node. */
  filled(template, node) {
    const rows = [node.option, ...node.arguments];
    return template.split(/([#@]\d)/).flatMap((piece) => {
      if (!SLOT.test(piece)) return [piece];
      const row = rows[Number(piece[1])];
      if (!row) return [];
      return piece[0] === "@" ? this.grouped(row) : this.argument(row);
    });
  }

  /** Return the parts of an argument, in parentheses unless it is plain. */
  grouped(row) {
    return isPlain(row.nodes) ? [row] : ["(", ...this.argument(row), ")"];
  }

  argument(row) {
    return [row];
  }

  /** Return the parts of nodes that stand side by side. */
  line(nodes, whole = false) {
    const marked = this.marked(nodes, whole);
    return nodes.flatMap((node, number) => {
      const isApart = number && !isSign(nodes, number - 1);
      const space = isApart ? [this.space(nodes[number - 1], node)] : [];
      if (!marked.has(node.index)) return [...space, node];
      return [...space, marked.get(node.index), ...this.scripts(node)];
    });
  }

  /** Return the text of symbols that mean something else where they stand, by their index. */
  marked(nodes, _whole) {
    const character = ({ token }) => lookUp(CHARACTERS, token) ?? token;
    const unpaired = new Set(unpairedDelimiters(nodes));
    const texts = new Map();
    nodes.forEach((node, number) => {
      if (unpaired.has(node.index)) texts.set(node.index, this.literal(character(node)));
      const before = nodes[number - 1];
      if (before?.token === NOT && NEGATABLE.has(node.token) && !before.scripts.length) {
        texts.set(before.index, "");
        texts.set(node.index, character(node) + NEGATION);
      }
    });
    return texts;
  }

  /** Return what stands between two nodes: a space, except where people write none. */
  space(left, { token }) {
    if (left.token === NOT && !left.scripts.length) return "";
    if (CLOSERS.has(token) || [",", ";", "!"].includes(token)) return "";
    if (left.scripts.length) return " ";
    if (OPENERS.has(left.token) || (isNumber(left.token) && isNumber(token))) return "";
    return token === "(" && CALLABLE.has(left.token) ? "" : " ";
  }
}
