/** Syntax check of tokens. */

import { LatexError } from "./errors.js";
import { tokensOf } from "./symbols.js";
import { SEPARATORS, parse } from "./tree.js";

export const LIMITS = "\\limits";
export const OPERATORS = tokensOf("big", "limit", "function");

/** Return whether tokens in caption form are an expression that LaTeX accepts. */
export function isValid(tokens) {
  try {
    check(tokens);
  } catch (error) {
    if (error instanceof LatexError) return false;
    throw error;
  }
  return true;
}

/** Raise a LatexError unless tokens in caption form are well-formed. */
export function check(tokens) {
  for (const row of parse(tokens).rows) {
    if (row.start < 0 && row.owner) throw row.owner.error("has too few groups");
    row.nodes.forEach((node, number) => {
      if (node.token === LIMITS) {
        checkLimits(node.index, node);
      } else if (SEPARATORS.has(node.token)) {
        if (row.start >= 0 && ["{", "["].includes(tokens[row.start])) {
          throw node.error("stands in a group, where no line or cell can end");
        }
      } else if (node.token === "" && number && !SEPARATORS.has(row.nodes[number - 1].token)) {
        throw node.scripts[0].error("is the second script of its kind on a base");
      } else if (node.limits >= 0) {
        checkLimits(node.limits, node);
      }
    });
  }
}

function checkLimits(index, node) {
  if (!node.scripts.length || !OPERATORS.has(node.token)) {
    throw new LatexError("does not stand between an operator and a script", LIMITS, index + 1);
  }
}
