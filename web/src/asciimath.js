/** LaTeX as AsciiMath. */

import { tokensOf } from "./symbols.js";
import tables from "./tables.js";
import {
  CLOSERS,
  OPENERS,
  TreeText,
  fences,
  interleave,
  isPlain,
  isPrimes,
} from "./tree_text.js";

const MAX_COLUMNS = 20; // to which short lines are filled up

const UNSAFE_SCRIPTS = new Set([...OPENERS, ...CLOSERS, ...tokensOf("bar"), "+", "-"]);

class AsciiMath extends TreeText {
  literal(text) { return `"${text.replaceAll('"', "”")}"`; }

  expression(root) {
    const { lines } = root;
    if (lines.length > 1 || lines[0].length > 1) return this.#table("{:", lines, ":}");
    return this.line(root.nodes, true);
  }

  environment(node) {
    const [left, right] = fences(node);
    return this.#table(left || "{:", node.arguments[0].lines, right || ":}");
  }

  #table(left, lines, right) {
    const columns = Math.min(Math.max(...lines.map((cells) => cells.length)), MAX_COLUMNS);
    const rows = lines.flatMap((cells, number) => [
      number ? ",(" : "(",
      ...interleave(cells, ","),
      `${",".repeat(Math.max(0, columns - cells.length))})`,
    ]);
    return [left, ...rows, right];
  }

  base(node) {
    if (!node.token) return ["{}"];
    if (node.token === "{" && node.scripts.length) return ["{:", node.arguments[0], ":}"];
    return super.base(node);
  }

  scripts(node) {
    const ordered = [...node.scripts].sort((one, other) => (one.token === "^") - (other.token === "^"));
    return ordered.flatMap((script) => {
      const row = script.arguments[0];
      if (script.token === "^" && isPrimes(row)) return ["'".repeat(row.nodes.length)];
      const isSafe = isPlain(row.nodes) && !UNSAFE_SCRIPTS.has(row.nodes[0].token);
      return isSafe ? [script.token, row] : [`${script.token}(`, row, ")"];
    });
  }

  marked(nodes, whole) {
    const texts = super.marked(nodes, whole);
    if (whole) return texts;
    let depth = 0;
    for (const { index, token } of nodes) {
      if (!texts.has(index)) depth += OPENERS.has(token) - CLOSERS.has(token);
      if (depth === 0 && token === ",") texts.set(index, '","'); // it separates cells of matrices
    }
    return texts;
  }
}

/** Return tokens in caption form as AsciiMath. */
export function toAsciimath(tokens) {
  return new AsciiMath(tables.asciimath).write(tokens);
}
