/** LaTeX as presentation MathML. */

import { lookUp } from "./symbols.js";
import tables from "./tables.js";
import { TreeText, isNumber, isPlain } from "./tree_text.js";

const { symbols, templates, negated, fonts, circled } = tables.mathml;
const NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const NUMBER = /\d+(?:\.\d+)?|\.\d+|\./g;
const BRACES = new Set(["\\overbrace", "\\underbrace"]);
/** Commands whose template has several elements. */
const SEVERAL = new Set(["\\binom", "\\wideparen"]);
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const LETTERS = { l: "left", c: "center", r: "right" };
const ALIGNED = new Set(["aligned", "align", "split"]);
const CENTERED = new Set(["gathered", "gather"]);

const escaped = (text) => text.replace(/[&<>]/g, (character) => ENTITIES[character]);
const element = (name, parts) =>
  parts.length ? [`<${name}>`, ...parts, `</${name}>`] : [`<${name} />`];
const group = (row) => element("mrow", row?.nodes.length ? [row] : []);

class MathML extends TreeText {
  literal(text) {
    return `<mi>${escaped(text)}</mi>`;
  }

  symbol(token) {
    return lookUp(symbols, token) ?? this.literal(token);
  }

  expression(root) {
    return root.nodes.length ? [root] : [];
  }

  argument(row) {
    return row.nodes.length ? [row] : [];
  }

  base(node) {
    if (!node.token) return ["<mi />"];
    if (node.token === "{" || node.token === "\\left") return group(node.arguments[0]);
    if (lookUp(fonts, node.token)) return this.#styled(node);
    if (node.token === "\\textcircled") return circle(node.arguments[0]);
    // The degree of a root is one element.
    if (node.option && node.token === "\\sqrt" && !isPlain(node.option.nodes)) {
      return ["<mroot>", ...group(node.arguments[0]), ...group(node.option), "</mroot>"];
    }
    return super.base(node);
  }

  node(node) {
    return scripted(node, this.base(node));
  }

  scripts() {
    return [];
  }

  /** Letters in a font are characters of their own, or elements with a variant. */
  #styled(node) {
    const { letters, variant } = fonts[node.token];
    const { nodes } = node.arguments[0];
    const letter =
      nodes.length === 1 && isPlain(nodes) ? lookUp(letters, nodes[0].token) : undefined;
    if (letter) return [letter];
    if (!nodes.every((one) => isPlain([one]))) return group(node.arguments[0]);
    const style = (text) => text.replace(/^<(mi|mn)>/, `<$1 mathvariant="${variant}">`);
    return element(
      "mrow",
      nodes.map(({ token }) => style(this.symbol(token))),
    );
  }

  environment(node) {
    const name = node.token.slice("\\begin{".length, -1).replace(/\*$/, "");
    const aligns = alignment(name, node.option);
    const rows = node.arguments[0].lines.filter((cells) => cells.some((cell) => cell.length));
    const cell = (nodes, column) => {
      const align = aligns(column);
      const tag = align ? `<mtd columnalign="${align}">` : "<mtd>";
      return [tag, ...(nodes.length ? [nodes] : []), "</mtd>"];
    };
    const table = element(
      "mtable",
      rows.flatMap((cells) => element("mtr", cells.flatMap(cell))),
    );
    const [left, right] = lookUp(tables.mathml.fences, name) ?? ["", ""];
    if (name === "cases") return ["<mrow>", left, ...table, "</mrow>"];
    return left && node.scripts.length
      ? ["<mrow>", left, ...table, right, "</mrow>"]
      : [left, ...table, right];
  }

  line(nodes) {
    const parts = [];
    for (let number = 0; number < nodes.length; number++) {
      const node = nodes[number];
      const next = nodes[number + 1];
      const negation = next && !node.scripts.length ? lookUp(negated, next.token) : undefined;
      if (node.token === "\\not" && negation) {
        parts.push(...scripted(next, [negation]));
        number++;
      } else if (isNumber(node.token)) {
        const last = endOfNumber(nodes, number);
        parts.push(...numbers(nodes.slice(number, last + 1)));
        number = last;
      } else {
        parts.push(node);
      }
    }
    return parts;
  }
}

/** Return the base of a node with its scripts. */
function scripted(node, base) {
  if (!node.scripts.length) return base;
  const unit = SEVERAL.has(node.token) ? ["<mrow>", ...base, "</mrow>"] : base;
  const [below, over] = [node.script("_"), node.script("^")];
  const isLimit = node.limits >= 0 || BRACES.has(node.token);
  const names = isLimit ? ["munder", "mover", "munderover"] : ["msub", "msup", "msubsup"];
  const name = names[below && over ? 2 : over ? 1 : 0];
  return [
    `<${name}>`,
    ...unit,
    ...(below ? group(below) : []),
    ...(over ? group(over) : []),
    `</${name}>`,
  ];
}

/** Return the number of the last node of a run of digits, which only the last may have scripts. */
function endOfNumber(nodes, first) {
  let last = first;
  while (!nodes[last].scripts.length && nodes[last + 1] && isNumber(nodes[last + 1].token)) last++;
  return last;
}

/** Return the numbers and full stops of a run of digits; the last one has the scripts. */
function numbers(nodes) {
  // Full stops that follow each other are separate.
  const text = nodes
    .map(({ token }) => token)
    .join("")
    .replaceAll("..", ". .")
    .replaceAll("..", ". .");
  const pieces = text.match(NUMBER).map((piece) => {
    if (piece === ".") return symbols["."];
    return piece.startsWith(".") ? `<mi>${piece}</mi>` : `<mn>${piece}</mn>`;
  });
  return [...pieces.slice(0, -1), ...scripted(nodes.at(-1), pieces.slice(-1))];
}

function circle(row) {
  const letter = row && isPlain(row.nodes) ? lookUp(circled, row.nodes[0].token) : undefined;
  if (letter && row.nodes.length === 1) return [letter];
  return ['<menclose notation="circle">', ...group(row), "</menclose>"];
}

/** Return the alignment of each column of an environment. */
function alignment(name, option) {
  if (name === "array") {
    const letters = (option?.nodes ?? []).map(({ token }) => token).filter((one) => LETTERS[one]);
    return (column) => LETTERS[letters[Math.min(column, letters.length - 1)]];
  }
  if (name === "cases") return () => "left";
  if (ALIGNED.has(name)) return (column) => (column % 2 ? "left" : "right");
  return () => (CENTERED.has(name) ? "center" : undefined);
}

/** Return tokens in caption form as a `math` element. */
export function toMathml(tokens) {
  const display = tokens.includes("\\\\") ? "block" : "inline";
  const written = new MathML({ symbols, templates }).write(tokens);
  const content = written
    .replaceAll("<mrow></mrow>", "<mrow />")
    .replaceAll("<mtd></mtd>", "<mtd />");
  return `<math xmlns="${NAMESPACE}" display="${display}"><mrow>${content}</mrow></math>`;
}
