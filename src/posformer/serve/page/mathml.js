// LaTeX tokens as MathML elements that know the index of their token.

import { KINDS, lookUp } from "./recognizer/symbols.js";
import tables from "./recognizer/tables.js";
import { CHARACTERS, CLOSERS, fences, isNumber, OPENERS } from "./recognizer/tree_text.js";
import { parse, SEPARATORS } from "./recognizer/tree.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const IDENTIFIERS = new Set(["letter", "greek", "symbol"]);
const OPERATORS = new Set(["operator", "relation", "arrow", "punctuation", "postfix", "bar", "delimiter", "big"]);
const INTEGRALS = new Set(["\\int", "\\iint", "\\iiint", "\\iiiint", "\\oint", "\\oiint"]);
const ACCENTS = {
  "\\hat": "^", "\\widehat": "^", "\\bar": "¯", "\\vec": "→", "\\tilde": "~", "\\widetilde": "~",
  "\\dot": "˙", "\\ddot": "¨", "\\dddot": "⃛", "\\check": "ˇ", "\\acute": "´", "\\grave": "`",
  "\\breve": "˘", "\\mathring": "˚", "\\overline": "‾", "\\overrightarrow": "→",
  "\\overleftarrow": "←", "\\overleftrightarrow": "↔", "\\overbrace": "⏞", "\\overparen": "⏜",
  "\\wideparen": "⏜", "\\overarc": "⏜",
};
const ACCENTS_BELOW = {
  "\\underline": "_", "\\underbrace": "⏟", "\\underrightarrow": "→", "\\underleftarrow": "←",
};
const NOT_STRETCHED = new Set(["\\hat", "\\bar", "\\vec", "\\tilde", "\\check", "\\acute", "\\grave", "\\breve"]);
const LONG_ARROWS = {
  "\\xrightarrow": "→", "\\xleftarrow": "←", "\\xleftrightarrow": "↔", "\\xRightarrow": "⇒",
  "\\xLeftarrow": "⇐", "\\xlongequal": "=",
};
const FUNCTION_SPACE = "0.1667em";

const kindOf = (token) => lookUp(KINDS, token) ?? "";

function make(name, attributes = {}, ...children) {
  const element = document.createElementNS(MATHML, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Returns a `math` element; with `indexed`, each symbol is an element with a `data-index`.
export function mathElement(tokens, { display = "block", indexed = false } = {}) {
  const root = parse(tokens, { lenient: true }).rows[0];
  const writer = new Writer(display === "block", indexed);
  const hasLines = root.nodes.some((node) => SEPARATORS.has(node.token));
  const content = hasLines ? writer.table(root.lines, "array") : writer.row(root.nodes);
  const math = make("math", { display }, content);
  if (display === "block") math.setAttribute("displaystyle", "true");
  return math;
}

class Writer {
  constructor(large, indexed) {
    this.large = large;
    this.indexed = indexed;
    this.style = null; // characters of the letters inside of \mathbb and the like
    this.stretches = new Set(); // delimiters of \left and \right
  }

  row(nodes) {
    const elements = [];
    nodes.forEach((node, number) => {
      const next = nodes[number + 1];
      const isPart = !this.indexed && isNumber(node.token) && node.index >= 0;
      const last = elements.at(-1);
      if (isPart && last?.localName === "mn" && isNumber(nodes[number - 1]?.token) && !node.scripts.length
        && !nodes[number - 1].scripts.length) {
        last.append(node.token);
        return;
      }
      elements.push(this.node(node));
      if (["function", "limit"].includes(kindOf(node.token)) && next && !OPENERS.has(next.token)
        && !CLOSERS.has(next.token) && next.token !== "&")
        elements.push(make("mspace", { width: FUNCTION_SPACE }));
    });
    return elements.length === 1 ? elements[0] : make("mrow", {}, ...elements);
  }

  node(node) {
    const base = this.base(node);
    const [below, above] = [node.script("_"), node.script("^")];
    if (!below && !above) return base;
    const isLimit = node.limits >= 0 || (this.large && !INTEGRALS.has(node.token)
      && ["big", "limit"].includes(kindOf(node.token))) || ["\\underbrace", "\\overbrace"].includes(node.token);
    const names = isLimit ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
    const name = names[below && above ? 2 : above ? 1 : 0];
    const scripts = [below, above].filter(Boolean).map((row) => this.row(row.nodes));
    return make(name, {}, base, ...scripts);
  }

  base(node) {
    const { token, arguments: rows } = node;
    if (!token) return make("mrow");
    if (node.isEnvironment) return this.#environment(node);
    if (token === "\\left") return this.#stretched(rows[0].nodes);
    if (rows.length) return this.#command(node, rows.map((row) => () => this.row(row.nodes)));
    return this.symbol(token, node.index);
  }

  symbol(token, index) {
    const text = lookUp(this.style ?? {}, token) ?? lookUp(CHARACTERS, token) ?? token;
    const kind = kindOf(token);
    const attributes = this.indexed && index >= 0 ? { "data-index": index } : {};
    if (isNumber(token)) return make("mn", attributes, text);
    if (IDENTIFIERS.has(kind) || kind === "function" || kind === "limit") return make("mi", attributes, text);
    if (!OPERATORS.has(kind)) return make(token.length > 1 ? "mtext" : "mi", attributes, text);
    if (kind === "delimiter" || kind === "bar") {
      attributes.stretchy = String(this.stretches.has(index));
      if (kind === "delimiter") attributes.form = OPENERS.has(token) ? "prefix" : "postfix";
    }
    if (token === "-") return make("mo", attributes, "−");
    return make("mo", attributes, text);
  }

  #stretched(nodes) {
    const sides = [nodes[0], nodes.at(-1)].filter(Boolean);
    for (const side of sides) this.stretches.add(side.index);
    const isEmpty = (node) => sides.includes(node) && node.token === ".";
    return make("mrow", {}, this.row(nodes.filter((node) => !isEmpty(node))));
  }

  #command(node, [first, second]) {
    const { token } = node;
    const mark = (text, attributes) =>
      make("mo", { ...attributes, ...(this.indexed ? { "data-index": node.index } : {}) }, text);
    switch (kindOf(token)) {
      case "fraction": return make("mfrac", {}, first(), second());
      case "binomial": return make("mrow", {}, make("mo", {}, "("),
        make("mfrac", { linethickness: "0" }, first(), second()), make("mo", {}, ")"));
      case "root": return node.option
        ? make("mroot", {}, first(), this.row(node.option.nodes)) : make("msqrt", {}, first());
      case "stack": return make(token === "\\underset" ? "munder" : "mover", {}, second(), first());
      case "longarrow": return this.#longArrow(node, first, mark);
      case "font": return this.#styled(token, first);
      default:
    }
    const stretchy = String(!NOT_STRETCHED.has(token));
    if (token in ACCENTS) return make("mover", { accent: "true" }, first(), mark(ACCENTS[token], { stretchy }));
    if (token in ACCENTS_BELOW)
      return make("munder", { accentunder: "true" }, first(), mark(ACCENTS_BELOW[token], { stretchy }));
    return make("mrow", {}, first());
  }

  #longArrow(node, above, mark) {
    const arrow = mark(LONG_ARROWS[node.token] ?? "→", { stretchy: "true" });
    if (!node.option) return make("mover", {}, arrow, above());
    return make("munderover", {}, arrow, this.row(node.option.nodes), above());
  }

  #styled(token, content) {
    const outer = this.style;
    this.style = lookUp(tables.unicode.styles, token);
    const element = content();
    this.style = outer;
    return element;
  }

  #environment(node) {
    const name = node.token.slice("\\begin{".length, -1);
    const [left, right] = fences(node);
    const table = this.table(node.arguments[0].lines, name);
    const fence = (text, form) => (text ? [make("mo", { form, fence: "true", stretchy: "true" }, text)] : []);
    return make("mrow", {}, ...fence(left, "prefix"), table, ...fence(right, "postfix"));
  }

  table(lines, environment) {
    const isAligned = /^(aligned|align|split)/.test(environment);
    const isLeft = ["array", "cases"].includes(environment);
    const side = (column) => (isAligned ? ["right", "left"][column % 2] : isLeft ? "left" : "center");
    return make("mtable", {}, ...lines.map((cells) => make("mtr", {}, ...cells.map((cell, column) =>
      make("mtd", { columnalign: side(column) }, this.row(cell))))));
  }
}
