// LaTeX as AsciiMath; a port of `posformer.latex.asciimath`.

import { CLOSERS, fences, OPENERS, TABLES } from "./tables.js";
import { depths, interleave, isBar, isPlain, isPrimes, TreeText } from "./tree_text.js";

const MAX_COLUMNS = 20; // to which short lines are filled up

const isUnsafeScript = (token) =>
  OPENERS.has(token) || CLOSERS.has(token) || isBar(token) || token === "+" || token === "-";

class AsciiMath extends TreeText {
  literal(text) { return `"${text.replaceAll('"', "”")}"`; }

  expression(root) {
    const { lines } = root;
    if (lines.length > 1 || lines[0].length > 1) return this.#table("{:", lines, ":}");
    return this.line(root.nodes, true);
  }

  environment(node) {
    const [left, right] = fences(node.token);
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
      const isSafe = isPlain(row.nodes) && !isUnsafeScript(row.nodes[0].token);
      return isSafe ? [script.token, row] : [`${script.token}(`, row, ")"];
    });
  }

  marked(nodes, whole) {
    const texts = super.marked(nodes);
    if (whole) return texts;
    for (const [node, depth] of depths(nodes, texts)) // commas separate the cells of matrices
      if (depth === 0 && node.token === ",") texts.set(node.index, '","');
    return texts;
  }
}

export const toAsciiMath = (tokens) => new AsciiMath(TABLES.asciimath).write(tokens);
