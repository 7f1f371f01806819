// LaTeX as Typst mathematics; a port of `posformer.latex.typst`.

import { tokensOf } from "./recognizer/symbols.js";
import { CLOSERS, fences, OPENERS, TABLES } from "./tables.js";
import { depths, interleave, isPlain, isPrimes, TreeText } from "./tree_text.js";

const EMPTY = '""';
const SEPARATORS = new Set([",", ";", ":"]); // of the arguments of a function
const LINES = ["\\begin{aligned}", "\\begin{gathered}", "\\begin{split}"];
const INTEGRALS = ["\\int", "\\iint", "\\iiint", "\\iiiint", "\\oint", "\\oiint"];
const WITHOUT_LIMITS = new Set([...tokensOf("function"), ...INTEGRALS]);
const UNSAFE_SCRIPTS = new Set([...OPENERS, ...CLOSERS, "+", "-", "/"]);

class Typst extends TreeText {
  literal(text) {
    if ([...text].length === 1 && !/[\p{L}\p{N}]/u.test(text)) return `\\${text}`;
    return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  }

  expression(root) {
    const [only] = root.nodes;
    const isLines = root.nodes.length === 1 && LINES.includes(only.token) && !only.scripts.length;
    const lines = (isLines ? only.arguments[0] : root).lines;
    return lines.flatMap((cells, number) => [
      ...(number ? [" \\ "] : []),
      ...cells.flatMap((cell, column) => [column ? " & " : "", ...this.line(cell, true)]),
    ]);
  }

  environment(node) {
    const isCases = node.token === "\\begin{cases}";
    const [left] = fences(node.token);
    const start = isCases ? "cases(" : left ? `mat(delim: "${left}", ` : "mat(delim: #none, ";
    const cell = (nodes) => (nodes.length ? nodes : EMPTY);
    const rows = node.arguments[0].lines.map((cells) =>
      interleave(cells.map(cell), isCases ? " & " : ", "));
    return [start, ...interleave(rows, isCases ? ", " : "; ").flatMap(unwrapped), ")"];
  }

  argument(row) { return [row.nodes.length ? row : EMPTY]; }

  base(node) {
    const isGroup = node.token === "{" || node.token === "\\left";
    if (!node.token || (isGroup && !node.arguments[0].nodes.length)) return [EMPTY];
    if (node.scripts.length && node.token === "{") // a group is no unit for scripts
      return ["attach(", ...this.argument(node.arguments[0])];
    const parts = super.base(node);
    return node.limits >= 0 && (node.arguments.length || WITHOUT_LIMITS.has(node.token))
      ? ["limits(", ...parts, ")"] : parts;
  }

  scripts(node) {
    const asArguments = node.token === "{";
    const parts = node.scripts.flatMap((script) => {
      const row = script.arguments[0];
      if (asArguments) return [script.token === "^" ? ", t: " : ", b: ", ...this.argument(row)];
      if (script.token === "^" && isPrimes(row)) return ["'".repeat(row.nodes.length)];
      const isSafe = isPlain(row.nodes) && !UNSAFE_SCRIPTS.has(row.nodes[0].token);
      return [script.token, ...(isSafe ? [row] : ["(", ...this.argument(row), ")"])];
    });
    return asArguments && node.scripts.length ? [...parts, ")"] : parts;
  }

  marked(nodes, whole) {
    const texts = super.marked(nodes);
    if (whole) return texts;
    for (const [node, depth] of depths(nodes, texts))
      if (depth === 0 && SEPARATORS.has(node.token) && !texts.has(node.index))
        texts.set(node.index, `\\${node.token}`);
    return texts;
  }
}

// A list of parts that stands for several parts, and not for the nodes of a cell.
const unwrapped = (part) => (Array.isArray(part) ? part : [part]);

export const toTypst = (tokens) => new Typst(TABLES.typst).write(tokens);
