/** LaTeX as one line of Unicode text, such as `x² + √(a + b)`. */

import { KINDS, lookUp, tokensOf } from "./symbols.js";
import tables from "./tables.js";
import { CLOSERS, OPENERS, TreeText, fences, isPlain, isPrimes } from "./tree_text.js";

const { scripts: SCRIPTS, marks: MARKS, styles: STYLES } = tables.unicode;
const NAMES = new Set([...tokensOf("function", "limit"), "\\bmod"]);
const ROOTS = { 3: "∛", 4: "∜" };
const BINARY = tokensOf("operator", "relation", "arrow");
const COMPOUND = tokensOf("fraction", "root", "stack", "longarrow");
const PREFIX = tokensOf("function", "limit", "big");

class UnicodeText extends TreeText {
  literal(text) { return text; }

  expression(root) { return this.#lines(root, " "); }

  environment(node) {
    const [left, right] = fences(node);
    return [left, ...this.#lines(node.arguments[0], left ? ", " : " "), right];
  }

  #lines(row, separator) {
    return row.lines.flatMap((cells, number) => [
      number ? "; " : "",
      ...cells.flatMap((cell, column) => {
        if (!column) return [cell];
        return [cells[column - 1].at(-1)?.token === "," ? " " : separator, cell];
      }),
    ]);
  }

  base(node) {
    const letters = node.arguments.length ? this.#letters(node.arguments.at(-1).nodes) : "";
    const text = letters && combined(node, letters);
    if (text) return [text];
    const parts = super.base(node);
    return node.scripts.length && isCompound(node) ? ["(", ...parts, ")"] : parts;
  }

  filled(template, node) {
    const index = node.option ? this.#letters(node.option.nodes) : "";
    const raised = scriptText("^", index);
    const sign = lookUp(ROOTS, index) ?? (raised ? `${raised}√` : "");
    const isRoot = node.token === "\\sqrt" || node.token === "\\root";
    return super.filled(sign && isRoot ? `${sign}@1` : template, node);
  }

  // The text of symbols without scripts; empty if there is anything else.
  #letters(nodes) {
    if (nodes.some((node) => node.arguments.length || node.scripts.length || !node.token)) return "";
    return nodes.map((node) => this.symbol(node.token)).join("");
  }

  scripts(node) {
    return node.scripts.flatMap((script, number) => {
      const row = script.arguments[0];
      const letters = this.#letters(row.nodes);
      const text = scriptText(script.token, letters);
      if (text) return [text];
      if (script.token === "^" && isPrimes(row)) return [letters];
      if (script.token === "^" && isPlain(row.nodes) && row.nodes[0].token === "\\circ") return ["°"];
      if (isPlain(row.nodes) && number === node.scripts.length - 1) return [script.token, row];
      return [`${script.token}(`, row, ")"];
    });
  }

  space(left, right) {
    const [first, second] = [left.token, right.token];
    if ((OPENERS.has(first) && !left.scripts.length) || CLOSERS.has(second)) return "";
    if (BINARY.has(first) || BINARY.has(second) || [",", ";", ":"].includes(first)) return " ";
    if (kindOf(first) === "fraction" || kindOf(second) === "fraction") return " ";
    if (PREFIX.has(first)) return OPENERS.has(second) ? "" : " ";
    if (NAMES.has(second) || kindOf(second) === "big") return OPENERS.has(first) ? "" : " ";
    return "";
  }
}

/** Whether a script behind the text of a node would belong to its last part only. */
function isCompound(node) {
  if (node.token !== "{") return COMPOUND.has(node.token);
  const { nodes } = node.arguments[0];
  return nodes.length > 1 || nodes.some((inner) => inner.scripts.length || inner.arguments.length);
}

/** Raised or lowered characters; empty if there are none for some of them. */
function scriptText(operator, text) {
  const characters = [...text].map((one) => lookUp(SCRIPTS[operator], one));
  return characters.includes(undefined) ? "" : characters.join("");
}

/** An accented or styled symbol as characters of its own; empty if there are none. */
function combined(node, letters) {
  const isOne = [...letters].length === 1;
  if (Object.hasOwn(MARKS, node.token) && isOne) return (letters + MARKS[node.token]).normalize("NFC");
  const style = lookUp(STYLES, node.token);
  if (!style) return "";
  if (node.token === "\\textcircled") return isOne ? lookUp(style, letters) ?? "" : "";
  return [...letters].map((letter) => lookUp(style, letter) ?? letter).join("");
}

const kindOf = (token) => lookUp(KINDS, token);

/** Return tokens in caption form as one line of Unicode text. */
export function toUnicode(tokens) {
  return new UnicodeText(tables.unicode).write(tokens);
}
