// The symbol table of the Python package, which the server or `build-web` writes as JSON.

export const TABLES = await (await fetch(new URL("latex.json", import.meta.url))).json();

const SYMBOLS = TABLES.symbols;
const ENVIRONMENT = /^\\(begin|end)\{([A-Za-z]+\*?)\}$/;

export const kindOf = (token) => SYMBOLS[token]?.kind ?? "";

// The positions of the arguments and of the optional argument; undefined without arguments.
export const signatureOf = (token) =>
  (SYMBOLS[token]?.arguments || SYMBOLS[token]?.option ? SYMBOLS[token] : undefined);

export const tokensOf = (...kinds) =>
  new Set(Object.keys(SYMBOLS).filter((token) => kinds.includes(SYMBOLS[token].kind)));

export const isStructure = (token) =>
  ["script", "structure"].includes(kindOf(token)) || ENVIRONMENT.test(token);

// The characters before and behind the lines of an environment.
export function fences(token) {
  const name = ENVIRONMENT.exec(token)?.[2].replace("*", "");
  const sides = TABLES.fences[name] ?? ["", ""];
  return sides.map((side) => side.split(" ").map((one) => TABLES.characters[one] ?? one).join(""));
}

const PAIRS = TABLES.delimiters;
export const OPENERS = new Set(Object.keys(PAIRS).filter((opener) => PAIRS[opener] !== opener));
export const CLOSERS = new Set([...OPENERS].map((opener) => PAIRS[opener]));
