// The expression tree, as `posformer.latex.tree` parses it, and LaTeX text to tokens and back.

import { isStructure, signatureOf } from "./symbols.js";

const ENVIRONMENT = String.raw`\\(begin|end)\s*\{\s*([A-Za-z]+\*?)\s*\}`;
const TOKEN = new RegExp(String.raw`${ENVIRONMENT}|\\[A-Za-z]+|\\[^\sA-Za-z]|\S`, "gu");
const COMMAND_WORD = /^\\[A-Za-z]+$/;
const ESCAPED = { "%": "\\%", "#": "\\#", $: "\\$" };
const CLOSERS = { "{": "}", "\\left": "\\right", "\\root": "\\of" };
const OPENERS = { "}": "{", "\\right": "\\left", "\\of": "\\root" };

export const LINE_BREAK = "\\\\";
export const isSeparator = (token) => token === LINE_BREAK || token === "&";

export class LatexError extends Error {}

export class Node {
  arguments = [];
  option = null;
  limits = -1; // index of the `\limits` behind the node
  scripts = []; // at most one node `^` and one node `_`

  constructor(token, index) {
    this.token = token;
    this.index = index;
  }

  script(operator) { return this.scripts.find((one) => one.token === operator)?.arguments[0]; }
  get isEnvironment() { return this.token.startsWith("\\begin{"); }
  error(reason) { return new LatexError(`token ${this.index + 1} (${this.token}) ${reason}`); }
}

export class Row {
  nodes = [];
  start = -1;

  constructor(parent, owner) {
    this.parent = parent;
    this.owner = owner;
  }

  // Lines, separated by `\\`, of cells, separated by `&`.
  get lines() {
    const lines = [[[]]];
    for (const node of this.nodes) {
      if (node.token === LINE_BREAK) lines.push([[]]);
      else if (node.token === "&") lines.at(-1).push([]);
      else lines.at(-1).at(-1).push(node);
    }
    return lines;
  }
}

const closerOf = (token) =>
  (token.startsWith("\\begin{") ? `\\end${token.slice(6)}` : CLOSERS[token] ?? "");
const openerOf = (token) =>
  (token.startsWith("\\end{") ? `\\begin${token.slice(4)}` : OPENERS[token] ?? "");

// Returns the row of the whole expression; throws a LatexError unless lenient.
export function parse(tokens, { lenient = false } = {}) {
  return new Parser(tokens, lenient).parse();
}

class Parser {
  constructor(tokens, lenient) {
    this.tokens = tokens;
    this.lenient = lenient;
    this.row = this.root = new Row(null, null);
    this.stack = []; // open rows and commands that wait for arguments
    this.closers = [];
    this.command = null; // on top of the stack, if it waits for an argument
  }

  parse() {
    this.tokens.forEach((token, index) => this.#read(index, token));
    this.#requireArguments();
    if (this.stack.length && !this.lenient)
      throw new Node(this.tokens[this.row.start], this.row.start).error("is never closed");
    while (this.stack.length) {
      this.#leaveRow();
      this.#requireArguments();
    }
    return this.root;
  }

  #read(index, token) {
    if (this.command && token === "{") this.command.arguments.push(this.#open(index, "}", this.command));
    else if (this.closers.length && token === this.closers.at(-1)) this.#close();
    else if (openerOf(token)) this.#closeEarly(index, token);
    else if (isSeparator(token)) {
      this.#requireArguments();
      this.row.nodes.push(new Node(token, index));
    } else if (this.command) this.#readArgument(index, token, this.command);
    else this.#place(index, token);
  }

  #readArgument(index, token, command) {
    if (token === "[" && signatureOf(command.token).option && !command.arguments.length && !command.option) {
      command.option = this.#open(index, "]", command);
      return;
    }
    this.row = new Row(this.row, command);
    command.arguments.push(this.row);
    this.command = null;
    this.#place(index, token);
    if (!this.command && this.row.owner === command) this.#leaveServed();
  }

  #place(index, token) {
    const node = new Node(token, index);
    const last = this.row.nodes.at(-1);
    if (token === "^" || token === "_") this.#placeScript(node);
    else if (closerOf(token)) this.#placeGroup(node, closerOf(token));
    else if (token === "\\limits" && last && last.limits < 0 && !last.scripts.length && !isSeparator(last.token))
      last.limits = index;
    else {
      this.row.nodes.push(node);
      if (signatureOf(token)) this.#await(node);
    }
  }

  #placeGroup(node, closer) {
    const before = this.tokens[node.index - 1] ?? "";
    if (node.token === "{" && before.startsWith("\\begin") && signatureOf(before)) {
      this.row.owner.option = this.#open(node.index, "}", this.row.owner);
      return;
    }
    this.row.nodes.push(node);
    if (node.token === "\\root") {
      this.#await(node);
      node.option = this.#open(node.index, closer, node);
    } else node.arguments = [this.#open(node.index, closer, node)];
  }

  #placeScript(script) {
    let base = this.row.nodes.at(-1);
    if (!base || isSeparator(base.token) || base.script(script.token)) {
      base = new Node("", -1);
      this.row.nodes.push(base);
    }
    base.scripts.push(script);
    this.#await(script);
  }

  #await(command) {
    this.stack.push(command);
    this.command = command;
  }

  #open(index, closer, owner) {
    const row = new Row(this.row, owner);
    row.start = index;
    this.stack.push(row);
    this.closers.push(closer);
    this.row = row;
    this.command = null;
    return row;
  }

  #close() {
    this.#requireArguments();
    this.#leaveRow();
  }

  #closeEarly(index, token) {
    this.#requireArguments();
    if (!this.lenient) throw new Node(token, index).error("closes nothing");
    if (!this.closers.includes(token)) {
      this.row.nodes.push(new Node(token, index));
      return;
    }
    while (this.closers.at(-1) !== token) {
      this.#leaveRow();
      this.#requireArguments();
    }
    this.#close();
  }

  #leaveRow() {
    this.stack.pop();
    this.closers.pop();
    this.row = this.row.parent;
    this.#leaveServed();
  }

  #leaveServed() {
    while (this.stack.at(-1) instanceof Node) {
      const command = this.stack.at(-1);
      if (this.row.owner === command) this.row = this.row.parent; // an argument without braces
      if (command.arguments.length < signatureOf(command.token).arguments.length) {
        this.command = command;
        return;
      }
      this.stack.pop();
    }
    this.command = null;
  }

  #requireArguments() {
    while (this.command) {
      const command = this.command;
      if (!this.lenient) throw command.error("has too few arguments");
      while (command.arguments.length < signatureOf(command.token).arguments.length)
        command.arguments.push(new Row(this.row, command));
      this.#leaveServed();
    }
  }
}

export const tokenize = (text) => Array.from(text.matchAll(TOKEN), ([token, side, name]) =>
  (side ? `\\${side}{${name}}` : token));

// LaTeX that any engine renders; an array is put around lines, which LaTeX ignores elsewhere.
export function toLatex(tokens) {
  const pieces = [];
  let previous = "";
  for (const token of inLines(tokens)) {
    if (/^\p{L}/u.test(token) && COMMAND_WORD.test(previous)) pieces.push(" ");
    else if (previous === LINE_BREAK && (token === "[" || token === "*")) pieces.push("{}");
    else if (token === "." && previous === ".") pieces.push(" ");
    pieces.push(ESCAPED[token] ?? token);
    previous = token;
  }
  return pieces.join("");
}

function inLines(tokens) {
  const columns = (row) => ["{", ..."l".repeat(Math.max(...row.lines.map((line) => line.length))), "}"];
  const root = parse(tokens, { lenient: true });
  const named = new Map();
  const visit = (row) => row.nodes.forEach((node) => {
    if (node.token === "\\begin{array}" && !node.option) named.set(node.index, columns(node.arguments[0]));
    const option = node.option && !node.isEnvironment ? [node.option] : [];
    [...option, ...node.arguments, ...node.scripts.map((one) => one.arguments[0])].forEach(visit);
  });
  visit(root);
  const inside = tokens.flatMap((token, index) => [token, ...(named.get(index) ?? [])]);
  if (!root.nodes.some((node) => node.token === LINE_BREAK)) return inside;
  return ["\\begin{array}", ...columns(root), ...inside, "\\end{array}"];
}

// Whether one symbol may stand in the place of another.
export const isReplaceable = (token) => !isStructure(token);
