/** LaTeX as Typst mathematics. */

import { tokensOf } from "./symbols.js";
import tables from "./tables.js";
import { CLOSERS, OPENERS, TreeText, fences, interleave, isPlain, isPrimes } from "./tree_text.js";

const EMPTY = '""';
const SEPARATORS = new Set([",", ";", ":"]); // of the arguments of a function
const LINES = new Set(["aligned", "gathered", "split"].map((name) => `\\begin{${name}}`));
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
    const isOnly = root.nodes.length === 1 && LINES.has(only.token) && !only.scripts.length;
    const lines = isOnly ? only.arguments[0].lines : root.lines;
    return lines.flatMap((cells, number) => [
      number ? " \\ " : "",
      ...cells.flatMap((cell, column) => [column ? " & " : "", ...this.line(cell, true)]),
    ]);
  }

  environment(node) {
    const isCases = node.token === "\\begin{cases}";
    const [left] = fences(node);
    const opening = left ? `mat(delim: "${left}", ` : "mat(delim: #none, ";
    const rows = node.arguments[0].lines.map((cells) =>
      interleave(
        cells.map((cell) => (cell.length ? cell : EMPTY)),
        isCases ? " & " : ", ",
      ),
    );
    const separator = isCases ? ", " : "; ";
    const parts = rows.flatMap((row, number) => [number ? separator : "", ...row]);
    return [isCases ? "cases(" : opening, ...parts, ")"];
  }

  argument(row) {
    return [row.nodes.length ? row : EMPTY];
  }

  base(node) {
    const isGroup = node.token === "{" || node.token === "\\left";
    if (!node.token || (isGroup && !node.arguments[0]?.nodes.length)) return [EMPTY];
    if (node.scripts.length && node.token === "{") {
      return ["attach(", ...this.argument(node.arguments[0])]; // a group is no unit for scripts
    }
    const parts = super.base(node);
    const setsLimits = node.arguments.length || WITHOUT_LIMITS.has(node.token);
    return node.limits >= 0 && setsLimits ? ["limits(", ...parts, ")"] : parts;
  }

  scripts(node) {
    const asArguments = node.token === "{";
    const parts = node.scripts.flatMap(({ token, arguments: [row] }) => {
      if (asArguments) return [token === "^" ? ", t: " : ", b: ", ...this.argument(row)];
      if (token === "^" && isPrimes(row)) return ["'".repeat(row.nodes.length)];
      return [token, ...this.#script(row)];
    });
    return asArguments && node.scripts.length ? [...parts, ")"] : parts;
  }

  #script(row) {
    if (isPlain(row.nodes) && !UNSAFE_SCRIPTS.has(row.nodes[0].token)) return [row];
    return ["(", ...this.argument(row), ")"];
  }

  marked(nodes, whole) {
    const texts = super.marked(nodes, whole);
    if (whole) return texts;
    let depth = 0;
    for (const { index, token } of nodes) {
      if (texts.has(index)) continue;
      depth += (OPENERS.has(token) ? 1 : 0) - (CLOSERS.has(token) ? 1 : 0);
      if (depth === 0 && SEPARATORS.has(token)) texts.set(index, `\\${token}`);
    }
    return texts;
  }
}

/** Return tokens in caption form as Typst mathematics, without the dollar signs around it. */
export function toTypst(tokens) {
  return new Typst(tables.typst).write(tokens);
}
