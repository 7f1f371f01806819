/**
 * A pushdown automaton that accepts exactly the valid expressions, from either end.
 *
 * It reads tokens one by one, left to right or right to left, and knows at any time which tokens
 * may come next and how many are needed to finish. Both follow from the symbol table. Search uses
 * it to decode nothing but expressions that LaTeX accepts.
 *
 * Tokens that behave alike form a class. A mode is what the automaton knows about the innermost
 * row. A move leads from a mode with a class to another mode; it may put modes on the stack, to
 * which the automaton returns at the end of the inner row.
 *
 * Right to left, the token before a group tells what the group is. Until it is read, the mode
 * counts the groups that may be arguments of it. Likewise, `[ … ]` turns out to be an optional
 * argument when `\sqrt` is read: the state's `brackets` hold, for each `]` of a row, the number of
 * groups behind it.
 */

import { SIGNATURES, lookUp } from "./symbols.js";
import { LIMITS, OPERATORS } from "./syntax.js";
import { SCRIPTS, SEPARATORS, closerOf, openerOf } from "./tree.js";

const MOST_ARGUMENTS = Math.max(
  ...Object.values(SIGNATURES).map(([positions]) => positions.length),
);
const END_OF_ROW = -1; // target of a move that returns to the outer row

/** A class of tokens: its kind, the token that tells, and its arguments. */
function tokenClass(kind, token = "", count = 0, option = false) {
  return { kind, token, count, option };
}

/** Return the class of a token; one that is not in the symbol table is a symbol. */
function classOf(token) {
  const [positions, option] = lookUp(SIGNATURES, openerOf(token) || token) ?? ["", ""];
  const count = positions.length;
  if (SCRIPTS.has(token)) return tokenClass("script", token, count);
  if (openerOf(token)) return tokenClass("end", token, count);
  if (closerOf(token)) return tokenClass("start", closerOf(token), count); // `\root … \of`
  if (count) return tokenClass("command", "", count, option !== "");
  if (token === "[" || token === "]") return tokenClass("bracket", token);
  if (SEPARATORS.has(token)) return tokenClass("separator");
  if (token === LIMITS) return tokenClass("limits");
  return tokenClass(OPERATORS.has(token) ? "operator" : "symbol");
}

/** A move before it is compiled; a target of null means that the row ends. */
function step(target, pushed = [], brackets = "") {
  return { target, pushed, brackets };
}

const joined = (scripts, script) => [...scripts, script].sort().join("");
const endsGroup = (end) => end === "}" || end === "]";

/** Left to right: arguments must follow. */
const awaitArguments = (count, option = false) => ({ type: "arguments", count, option });

/** Left to right: in a row, behind a node or at the start. */
const row = (end = "", behind = "") => ({ type: "row", end, behind });

/** Right to left: in a row, before a node or at the end. */
const reverseRow = (end = "", before = "", count = 0, scripts = "") => ({
  type: "reverse",
  end,
  before,
  count,
  scripts,
});

/** The tokens needed to leave each type of mode. */
const COST = {
  arguments: ({ count }) => 2 * count,
  row: ({ end, behind }) => (end ? 1 : 0) + (behind === "limits" ? 3 : 0),
  reverse: ({ end, before }) => (end ? 1 : 0) + (before === "limits" ? 1 : 0),
};

/** The step from each type of mode with a class, or null. */
const MOVE = { arguments: moveToArgument, row: moveInRow, reverse: moveInReverse };

function moveToArgument({ count, option }, token) {
  if (token.kind === "start" && token.token === "}") {
    return step(row("}"), count > 1 ? [awaitArguments(count - 1)] : []);
  }
  if (option && token.kind === "bracket" && token.token === "[") {
    return step(row("]"), [awaitArguments(count)]);
  }
  return null;
}

function moveInRow(mode, token) {
  const { end, behind } = mode;
  const after = row(end);
  if (token.kind === "script") {
    const scripts = SCRIPTS.has(behind[0]) ? behind : "";
    if (scripts.includes(token.token)) return null;
    return step(awaitArguments(1), [row(end, joined(scripts, token.token))]);
  }
  if (behind === "limits") return null;
  if (token.token === end && ["end", "bracket"].includes(token.kind)) return step(null);
  switch (token.kind) {
    case "end":
      return null;
    case "limits":
      return behind === "operator" ? step(row(end, "limits")) : null;
    case "separator":
      return endsGroup(end) ? null : step(after);
    case "start":
      return step(row(token.token), token.count ? [after, awaitArguments(token.count)] : [after]);
    case "command":
      return step(awaitArguments(token.count, token.option), [after]);
    case "operator":
      return step(row(end, "operator"));
    default:
      return step(after);
  }
}

function moveInReverse(mode, token) {
  const { end, before, count } = mode;
  const after = reverseRow(end);
  if (before === "limits") return token.kind === "operator" ? step(after) : null;
  const groups = before === "groups" ? count : 0;
  switch (token.kind) {
    case "limits":
      return before === "script" ? step(reverseRow(end, "limits")) : null;
    case "script":
      return groups ? moveToScript(mode, token.token) : null;
    case "separator":
      return endsGroup(end) ? null : step(after, [], "forget");
    case "start":
      return token.token === end ? step(null) : null;
    case "end":
      if (groups < token.count) return null;
      return step(reverseRow(token.token), [
        token.token === "}" ? behindGroup(mode, groups) : after,
      ]);
    case "command":
      if (before === "bracket") {
        return token.option && count >= token.count ? step(after, [], "pair") : null;
      }
      return groups >= token.count ? step(after) : null;
    case "bracket":
      if (token.token === "[") return step(reverseRow(end, "bracket"), [], "look");
      return step(after, [], "note");
    default:
      return step(after);
  }
}

function moveToScript({ end, count, scripts }, script) {
  const behind = count === 1 ? scripts : "";
  return behind.includes(script)
    ? null
    : step(reverseRow(end, "script", 0, joined(behind, script)));
}

/** The mode when the group that ends here has been read. */
function behindGroup({ end, before, scripts }, groups) {
  const known = before === "script" ? scripts : "";
  return reverseRow(end, "groups", Math.min(groups + 1, MOST_ARGUMENTS), known);
}

/**
 * The automaton for a list of tokens, in both directions.
 *
 * `classOf`: the class of each token. `growth`: for each mode and class by how much `missing` of
 * the state grows, null if the class is not allowed. `complete`: for each mode whether the
 * expression may end. A state is `{ mode, missing, stack, brackets }`, immutable.
 */
export class Automaton {
  #modes = [];
  #numbers = new Map();
  #moves = [];

  /** @param {readonly string[]} tokens which all methods refer to by index */
  constructor(tokens) {
    const known = new Set(tokens);
    const numbers = new Map();
    const classes = [];
    this.classOf = tokens.map((token) => {
      const one = classOf(token);
      const key = JSON.stringify(one);
      if (!numbers.has(key)) {
        numbers.set(key, classes.length);
        classes.push(restricted(one, known));
      }
      return numbers.get(key);
    });
    const starts = [row("", "nothing"), reverseRow("", "nothing")].map((one) => this.#number(one));
    // The list of modes grows until every mode that can be reached has its moves.
    for (let number = 0; number < this.#modes.length; number++) {
      const mode = this.#modes[number];
      this.#moves.push(
        classes.map((one) => {
          const found = one && MOVE[mode.type](mode, one);
          return found ? this.#compile(mode, found) : null;
        }),
      );
    }
    const costs = this.#modes.map((mode) => COST[mode.type](mode));
    for (const start of starts) {
      const lengths = this.#moves[start].filter(Boolean).map((move) => 1 + costOf(move, costs));
      costs[start] = lengths.length ? Math.min(...lengths) : 0;
    }
    this.growth = this.#moves.map((moves, mode) =>
      moves.map((move) => (move ? costOf(move, costs) - costs[mode] : null)),
    );
    this.complete = costs.map((cost) => cost === 0);
    this.starts = starts.map((mode) => ({
      mode,
      missing: costs[mode],
      stack: null,
      brackets: null,
    }));
  }

  /** Return the state before the first token, or if `reverse`, behind the last. */
  start(reverse) {
    return this.starts[reverse ? 1 : 0];
  }

  /** Return the state after another token, which must be allowed. */
  advance(state, token) {
    const number = this.classOf[token];
    const move = this.#moves[state.mode][number];
    if (!move) throw new RangeError(`token ${token} is not allowed here`);
    const missing = state.missing + this.growth[state.mode][number];
    let { stack, brackets } = state;
    if (move.targets[0] === END_OF_ROW) {
      return { mode: stack.mode, missing, stack: stack.rest, brackets: stack.brackets };
    }
    for (const mode of move.pushed) {
      stack = { mode, brackets, rest: stack };
      brackets = null;
    }
    const mode = move.targets[move.brackets === "look" && brackets ? brackets.groups : 0];
    if (move.brackets === "note") brackets = { groups: move.groups, rest: brackets };
    else if (move.brackets === "pair") brackets = brackets.rest;
    else if (move.brackets === "forget") brackets = null;
    return { mode, missing, stack, brackets };
  }

  #number(mode) {
    const key = JSON.stringify(mode);
    if (!this.#numbers.has(key)) {
      this.#numbers.set(key, this.#modes.length);
      this.#modes.push(mode);
    }
    return this.#numbers.get(key);
  }

  #compile(mode, { target, pushed, brackets }) {
    let targets;
    if (target === null) {
      targets = [END_OF_ROW];
    } else if (brackets === "look") {
      const counts = Array.from({ length: MOST_ARGUMENTS }, (_, i) => i + 1);
      const paired = counts.map((count) => reverseRow(target.end, "bracket", count));
      targets = [reverseRow(target.end), ...paired].map((one) => this.#number(one));
    } else {
      targets = [this.#number(target)];
    }
    const groups = mode.type === "reverse" && mode.before === "groups" ? mode.count : 0;
    return { targets, pushed: pushed.map((one) => this.#number(one)), brackets, groups };
  }
}

/** The number of tokens needed to finish after a move, as far as it determines them. */
function costOf({ targets, pushed }, costs) {
  return [targets[0], ...pushed].reduce(
    (total, mode) => total + (mode === END_OF_ROW ? 0 : costs[mode]),
    0,
  );
}

/** Return a class as it can be used with the known tokens, or null if it cannot be used. */
function restricted(one, known) {
  const has = (...tokens) => tokens.every((token) => known.has(token));
  const knowsAny = (tokens) => [...tokens].some((token) => known.has(token));
  if (one.count && !has("{", "}")) return null;
  if (one.kind === "start" && !has(one.token)) return null;
  if (one.kind === "end" && !has(openerOf(one.token))) return null;
  if (one.kind === "limits") {
    if (!has("{", "}") || !knowsAny(SCRIPTS) || !knowsAny(OPERATORS)) return null;
  }
  return { ...one, option: one.option && known.has("]") };
}
