/** Writes n-gram models for tests. */

import { hashNgram } from "../src/ngram_model.js";

const FIRST_TOKEN = 3;
const NAMES = { "<s>": 1, "</s>": 2 };

/**
 * Return the content of a file.
 *
 * @param {string[]} tokens
 * @param {Record<string, number>[]} ngrams steps of 1/16 by n-grams such as `<s> x`, by order
 * @param {Record<string, number>[]} contexts likewise
 * @param metadata entries to change
 * @returns {Uint8Array}
 */
export function ngramFile(tokens, ngrams, contexts, metadata = {}) {
  const header = {
    __metadata__: {
      format: "posformer n-gram model 1",
      tokens: JSON.stringify(tokens),
      info: "{}",
      ...metadata,
    },
  };
  const data = [];
  const append = (name, dtype, length, bytes) => {
    const end = data.length + bytes.length;
    header[name] = { dtype, shape: [length], data_offsets: [data.length, end] };
    data.push(...bytes);
  };
  const tables = { ngrams, contexts };
  for (const [kind, orders] of Object.entries(tables)) {
    orders.forEach((entries, index) => {
      const hashes = Object.entries(entries).map(([ngram, steps]) => [
        hashOf(ngram, tokens),
        steps,
      ]);
      hashes.sort(([one], [other]) => one - other);
      const keys = Uint32Array.from(hashes, ([hash]) => hash);
      append(`${kind}.${index + 1}.hashes`, "U32", keys.length, new Uint8Array(keys.buffer));
      const values = Uint8Array.from(hashes, ([, steps]) => steps);
      append(`${kind}.${index + 1}.values`, "U8", values.length, values);
    });
  }
  return fileOf(header, data);
}

/** Return a file in safetensors layout. */
export function fileOf(header, data) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + data.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  bytes.set(data, 8 + text.length);
  return bytes;
}

function hashOf(ngram, tokens) {
  const ids = ngram.split(" ").map((token) => NAMES[token] ?? tokens.indexOf(token) + FIRST_TOKEN);
  return hashNgram(ids, ids.length - 1, ids.length);
}
