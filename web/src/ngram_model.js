/**
 * N-gram language model of formulas: a prior of the search over token sequences.
 *
 * Probabilities back off: an n-gram that the model does not have gets the probability of the
 * shorter one, times the back-off weight of its context. The file is in safetensors layout. Of each
 * n-gram it has a 32-bit hash and a logarithm in steps of 1/16.
 */

import { searchSorted } from "./arrays.js";
import { ModelError } from "./errors.js";

const [UNKNOWN, BEGIN, END, FIRST_TOKEN] = [0, 1, 2, 3]; // ids; tokens follow
const STEPS = 16; // of a stored logarithm, per unit
const FORMAT = "posformer n-gram model 1";
const ARRAYS = { U8: Uint8Array, U32: Uint32Array };

/** Add nothing. */
export const noPrior = () => 0;

/** An n-gram model with back-off. */
export class NgramModel {
  #ids = []; // by the ids of a vocabulary

  /**
   * @param {string[]} tokens those that it knows
   * @param {HashTable[]} ngrams log-probability of the last token, by order
   * @param {HashTable[]} contexts back-off weight of contexts of 1, 2, … tokens
   */
  constructor(tokens, ngrams, contexts) {
    this.tokens = tokens;
    this.ngrams = ngrams;
    this.contexts = contexts;
  }

  /**
   * Read the content of a file.
   *
   * @param {Uint8Array} bytes
   * @param {string} name of the file, for errors
   */
  static parse(bytes, name) {
    try {
      return parseFile(bytes);
    } catch (error) {
      throw new ModelError(`${name}: not an n-gram model, or damaged: ${error.message}`);
    }
  }

  /** The length of the longest n-grams. */
  get order() {
    return this.ngrams.length;
  }

  /** Return the model for sequences of the ids of a vocabulary. */
  forVocabulary(vocabulary) {
    const numbers = new Map(this.tokens.map((token, index) => [token, index + FIRST_TOKEN]));
    const special = Array(vocabulary.size - vocabulary.tokens.length).fill(UNKNOWN);
    const known = vocabulary.tokens.map((token) => numbers.get(token) ?? UNKNOWN);
    const model = new NgramModel(this.tokens, this.ngrams, this.contexts);
    model.#ids = [...special, ...known];
    return model;
  }

  /**
   * Return the log-probability per token of a sequence, its end included.
   *
   * Tokens that the model does not know, such as those of matrices, do not count.
   *
   * @param {number[]} sequence ids of the vocabulary of `forVocabulary`
   */
  meanLogProbability(sequence) {
    const ids = sequence.map((id) => this.#ids[id]);
    const line = [...Array(this.order - 1).fill(UNKNOWN), BEGIN, ...ids, END];
    let total = 0;
    let count = 0;
    for (let place = this.order; place < line.length; place++) {
      const score = this.#logProbability(line, place);
      if (score === null) continue;
      total += score;
      count++;
    }
    return count ? total / count : 0;
  }

  /** Return the log-probability of the token in a place; null if the model does not know it. */
  #logProbability(line, place) {
    let score = this.ngrams[0].lookUp(hashNgram(line, place, 1));
    if (score === null) return null;
    for (let length = 1; length < this.order; length++) {
      const backoff = this.contexts[length - 1].lookUp(hashNgram(line, place - 1, length)) ?? 0;
      score = this.ngrams[length].lookUp(hashNgram(line, place, length + 1)) ?? score + backoff;
    }
    return score;
  }

  /**
   * Return a prior: a function of a sequence that returns what to add to its score in each
   * direction. Both together add `weight · log-probability per token`, which is at most zero.
   *
   * @param {number} weight of the language model
   * @param {number} lengthPower see `DecodingOptions`
   */
  prior(weight, lengthPower = 1) {
    if (!weight) return noPrior;
    const known = new Map();
    return (sequence) => {
      const key = sequence.join();
      if (!known.has(key)) {
        const length = (sequence.length + 1) ** (1 - lengthPower);
        known.set(key, (weight / 2) * this.meanLogProbability(sequence) * length);
      }
      return known.get(key);
    };
  }
}

/** Logarithms of probabilities or of back-off weights by the hash of their n-grams. */
class HashTable {
  /**
   * @param {Uint32Array} hashes sorted
   * @param {Uint8Array} values negative logarithms in steps
   */
  constructor(hashes, values) {
    this.hashes = hashes;
    this.values = values;
  }

  /** Return the logarithm of an n-gram; null if the table does not have it. */
  lookUp(hash) {
    const place = searchSorted(this.hashes, hash);
    return this.hashes[place] === hash ? this.values[place] / -STEPS : null;
  }
}

/** Return the hash of the n-gram that ends in a place of a line: FNV-1a of 32 bits. */
export function hashNgram(line, place, length) {
  let hash = 2166136261;
  for (let start = place - length + 1; start <= place; start++) {
    hash = Math.imul(hash ^ line[start], 16777619);
  }
  return hash >>> 0;
}

function parseFile(bytes) {
  const { about, arrays } = readTensors(bytes);
  if (about.format !== FORMAT) {
    throw new Error(`its format is '${about.format}', not '${FORMAT}'`);
  }
  const order = [...arrays.keys()].filter((name) => name.startsWith("ngrams.")).length / 2;
  if (order < 1) throw new Error("it has no n-grams");
  const tables = (name, count) =>
    Array.from({ length: count }, (_, index) => readTable(arrays, `${name}.${index + 1}`));
  return new NgramModel(
    parseJson(about.tokens).map(String),
    tables("ngrams", order),
    tables("contexts", order - 1),
  );
}

/** Return the metadata and the arrays of a file in safetensors layout. */
function readTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = bytes.length < 8 ? Infinity : Number(view.getBigUint64(0, true));
  if (size > bytes.length - 8) throw new Error("it is cut off");
  const first = 8 + size;
  const text = new TextDecoder().decode(bytes.subarray(8, first));
  const { __metadata__: about, ...entries } = parseJson(text);
  const arrays = new Map();
  for (const [name, { dtype, data_offsets: place }] of Object.entries(entries)) {
    const [start, end] = place;
    if (!(start >= 0 && start <= end && end <= bytes.length - first)) {
      throw new Error("it is cut off");
    }
    const origin = bytes.byteOffset + first; // copied, as arrays of 32 bits must be aligned
    arrays.set(name, new ARRAYS[dtype](bytes.buffer.slice(origin + start, origin + end)));
  }
  return { about, arrays };
}

function readTable(arrays, name) {
  const hashes = arrays.get(`${name}.hashes`);
  const values = arrays.get(`${name}.values`);
  const isSorted = hashes?.every((hash, place) => place === 0 || hashes[place - 1] < hash);
  if (!isSorted || hashes.length !== values?.length) {
    throw new Error(`the entries of ${name} are wrong`);
  }
  return new HashTable(hashes, values);
}

/** Parse JSON; the messages of engines may quote it, with line breaks. */
function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("its header is not JSON");
  }
}
