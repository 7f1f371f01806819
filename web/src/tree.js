/**
 * The expression tree: the one parser of tokens.
 *
 * A row is a sequence of nodes on one baseline: the whole expression, a group, an argument, or the
 * content of an environment. A node is a token together with the rows that belong to it and with
 * its scripts. Nothing recurses; time and memory are linear in the number of tokens.
 */

import { LatexError } from "./errors.js";
import { SIGNATURES, lookUp } from "./symbols.js";

export const SEPARATORS = new Set(["\\\\", "&"]);
export const SCRIPTS = new Set(["^", "_"]);

const CLOSERS = { "{": "}", "\\left": "\\right", "\\root": "\\of" };
const OPENERS = Object.fromEntries(Object.entries(CLOSERS).map(([one, other]) => [other, one]));
const NO_NODES = Object.freeze([]);

/** A token with its arguments and scripts. */
export class Node {
  constructor(token, index) {
    this.token = token; // empty for the missing base of a script
    this.index = index; // of the token; -1 if it is missing
    this.arguments = NO_NODES; // rows; a group and an environment have one
    this.option = null; // row of the optional argument, or of the column letters of an array
    this.limits = -1; // index of the `\limits` behind the node
    this.scripts = NO_NODES; // at most one node `^` and one node `_`, in the order written
  }

  /** Return the row of the script `^` or `_`, or null. */
  script(operator) {
    return this.scripts.find(({ token }) => token === operator)?.arguments[0] ?? null;
  }

  get isEnvironment() {
    return this.token.startsWith("\\begin{");
  }

  error(reason) {
    return new LatexError(reason, this.token, this.index + 1);
  }

  /** All rows that belong to the node, without the column letters of an array. */
  get rows() {
    const option = this.option === null || this.isEnvironment ? [] : [this.option];
    return [...option, ...this.arguments, ...this.scripts.map((script) => script.arguments[0])];
  }
}

/** Nodes that stand side by side. */
export class Row {
  constructor(number, parent, owner) {
    this.nodes = []; // line breaks and `&` are nodes, too
    this.number = number; // in `Tree.rows`
    this.parent = parent; // number of the row around it; -1 for the whole expression
    this.owner = owner; // the node it belongs to, or null
    this.start = -1; // index of the token that opens the row
    this.end = -1; // index of the token that closes the row
  }

  /** The nodes as lines, separated by `\\`, of cells, separated by `&`. */
  get lines() {
    const lines = [[[]]];
    for (const node of this.nodes) {
      if (node.token === "\\\\") lines.push([[]]);
      else if (node.token === "&") lines.at(-1).push([]);
      else lines.at(-1).at(-1).push(node);
    }
    return lines;
  }
}

/** Return the token that closes what a token opens; empty if it opens nothing. */
export function closerOf(token) {
  if (token.startsWith("\\begin{")) return `\\end${token.slice("\\begin".length)}`;
  return lookUp(CLOSERS, token) ?? "";
}

/** Return the token that opens what a token closes; empty if it closes nothing. */
export function openerOf(token) {
  if (token.startsWith("\\end{")) return `\\begin${token.slice("\\end".length)}`;
  return lookUp(OPENERS, token) ?? "";
}

/**
 * Parse tokens in caption form.
 *
 * @param {string[]} tokens
 * @param {{lenient?: boolean}} options lenient: close what is left open and take what closes
 *   nothing for a symbol instead of raising a LatexError
 * @returns `{ tokens, rows }`, outer rows before inner; the first is the whole expression
 */
export function parse(tokens, { lenient = false } = {}) {
  return new Parser(tokens, lenient).parse();
}

/** One pass with a stack of open rows and of commands that wait for arguments. */
class Parser {
  constructor(tokens, lenient) {
    this.tokens = tokens;
    this.lenient = lenient;
    this.row = new Row(0, -1, null);
    this.rows = [this.row];
    this.stack = [];
    this.closers = []; // of the open rows on the stack
    this.command = null; // on top of the stack, if it waits for an argument
  }

  parse() {
    this.tokens.forEach((token, index) => this.#read(index, token));
    this.#requireArguments();
    if (this.stack.length && !this.lenient) {
      throw new Node(this.tokens[this.row.start], this.row.start).error("is never closed");
    }
    while (this.stack.length) {
      this.#leaveRow();
      this.#requireArguments();
    }
    return { tokens: this.tokens, rows: this.rows };
  }

  #read(index, token) {
    const command = this.command;
    if (command && token === "{") {
      command.arguments = [...command.arguments, this.#open(index, "}", command)];
    } else if (token === this.closers.at(-1)) {
      this.#close(index);
    } else if (openerOf(token)) {
      this.#closeEarly(index, token);
    } else if (SEPARATORS.has(token)) {
      this.#requireArguments();
      this.row.nodes.push(new Node(token, index));
    } else if (command) {
      this.#readArgument(index, token, command);
    } else {
      this.#place(index, token);
    }
  }

  /** Read an argument without braces, or the start of an optional one. */
  #readArgument(index, token, command) {
    const [, option] = SIGNATURES[command.token];
    if (token === "[" && option && !command.arguments.length && command.option === null) {
      command.option = this.#open(index, "]", command);
      return;
    }
    this.row = this.#newRow(command);
    command.arguments = [...command.arguments, this.row];
    this.command = null;
    this.#place(index, token);
    if (this.command === null && this.row.owner === command) this.#leaveServed();
  }

  /** Read a token as a node of the current row. */
  #place(index, token) {
    const node = new Node(token, index);
    const closer = closerOf(token);
    const { nodes } = this.row;
    if (SCRIPTS.has(token)) {
      this.#placeScript(node);
    } else if (closer) {
      this.#placeGroup(node, closer);
    } else if (token === "\\limits" && nodes.length && takesLimits(nodes.at(-1))) {
      nodes.at(-1).limits = index;
    } else {
      nodes.push(node);
      if (lookUp(SIGNATURES, token)) this.#awaitArguments(node);
    }
  }

  #placeGroup(node, closer) {
    const { index } = node;
    const before = index ? this.tokens[index - 1] : "";
    if (node.token === "{" && before.startsWith("\\begin") && lookUp(SIGNATURES, before)) {
      const array = this.row.owner;
      array.option = this.#open(index, "}", array);
      return;
    }
    this.row.nodes.push(node);
    if (node.token === "\\root") {
      this.#awaitArguments(node);
      node.option = this.#open(index, closer, node);
    } else {
      node.arguments = [this.#open(index, closer, node)];
    }
  }

  #placeScript(script) {
    const { nodes } = this.row;
    let base = nodes.at(-1);
    if (!base || SEPARATORS.has(base.token) || base.script(script.token)) {
      base = new Node("", -1);
      nodes.push(base);
    }
    base.scripts = [...base.scripts, script];
    this.#awaitArguments(script);
  }

  #awaitArguments(command) {
    this.stack.push(command);
    this.command = command;
  }

  #newRow(owner) {
    const row = new Row(this.rows.length, this.row.number, owner);
    this.rows.push(row);
    return row;
  }

  #open(index, closer, owner) {
    const row = this.#newRow(owner);
    row.start = index;
    this.stack.push(row);
    this.closers.push(closer);
    this.row = row;
    this.command = null;
    return row;
  }

  #close(index) {
    this.#requireArguments();
    this.row.end = index;
    this.#leaveRow();
  }

  /** Read a token that does not close the innermost row. */
  #closeEarly(index, token) {
    this.#requireArguments();
    if (!this.lenient) {
      const awaited = this.closers.length ? `, ${this.closers.at(-1)} is awaited` : "";
      throw new Node(token, index).error(`closes nothing${awaited}`);
    }
    if (!this.closers.includes(token)) {
      this.row.nodes.push(new Node(token, index));
      return;
    }
    while (this.closers.at(-1) !== token) {
      this.#leaveRow();
      this.#requireArguments();
    }
    this.#close(index);
  }

  #leaveRow() {
    this.stack.pop();
    this.closers.pop();
    this.row = this.rows[this.row.parent];
    this.#leaveServed();
  }

  /** Leave the commands that have all their arguments. */
  #leaveServed() {
    for (let top; (top = this.stack.at(-1)) instanceof Node; this.stack.pop()) {
      if (this.row.owner === top) this.row = this.rows[this.row.parent]; // without braces
      if (top.arguments.length < SIGNATURES[top.token][0].length) {
        this.command = top;
        return;
      }
    }
    this.command = null;
  }

  /** Raise an error if a command still waits for arguments; if lenient, add empty ones. */
  #requireArguments() {
    while (this.command) {
      const { command } = this;
      if (!this.lenient) throw command.error("has too few arguments");
      const missing = SIGNATURES[command.token][0].length - command.arguments.length;
      const rows = Array.from({ length: missing }, () => this.#newRow(command));
      command.arguments = [...command.arguments, ...rows];
      this.#leaveServed();
    }
  }
}

function takesLimits(node) {
  return node.limits < 0 && !node.scripts.length && !SEPARATORS.has(node.token);
}
