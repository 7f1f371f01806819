/** Running a model with ONNX Runtime Web. */

import { ModelError } from "./errors.js";
import { DECODER, ENCODER, WEIGHTS } from "./model.js";

export const STRIDE = 16; // pixels per cell of the feature map, in both directions
const MAX_CELLS = 100_000; // beams · steps · cells per decoder call
const WEBGPU = "webgpu";

/**
 * Import ONNX Runtime Web: the build for WebAssembly, or the larger one for WebGPU.
 *
 * @param {{executionProviders: string[], runtimeUrl?: string | URL, threads?: number}} options
 *   without `runtimeUrl` it is imported as a package; with it, from that folder
 */
async function importRuntime({ executionProviders, runtimeUrl, threads }) {
  const build = executionProviders.includes(WEBGPU) ? "webgpu" : "wasm";
  let ort;
  try {
    if (runtimeUrl) {
      const folder = String(runtimeUrl).replace(/\/?$/, "/");
      ort = await import(
        /* @vite-ignore */ /* webpackIgnore: true */ `${folder}ort.${build}.min.mjs`
      );
      ort.env.wasm.wasmPaths = folder;
    } else if (build === "webgpu") {
      ort = await import("onnxruntime-web/webgpu");
    } else {
      ort = await import("onnxruntime-web/wasm");
    }
  } catch (error) {
    throw new ModelError(`ONNX Runtime Web cannot be loaded (${firstLine(error)})`);
  }
  // The build for browsers does not know how many cores Node may use.
  const count = threads ?? (globalThis.process?.versions?.node ? 1 : undefined);
  if (count !== undefined) ort.env.wasm.numThreads = count;
  ort.env.logLevel = "error";
  return ort;
}

/** A model run by ONNX Runtime Web. */
export class Runtime {
  /** Open the sessions of a model that `readModel` returned. */
  static async open({ files, ...model }, options = {}) {
    const executionProviders = options.executionProviders ?? ["wasm"];
    const ort = await importRuntime({ ...options, executionProviders });
    const open = async (name) => {
      const externalData = [{ path: WEIGHTS, data: files[WEIGHTS] }];
      try {
        return await ort.InferenceSession.create(files[name], {
          executionProviders,
          externalData,
          logSeverityLevel: 4, // errors are raised, not printed
        });
      } catch (error) {
        throw new ModelError(`${name}: ONNX Runtime cannot load it (${firstLine(error)})`);
      }
    };
    const encoder = await open(ENCODER); // one after the other: they share the environment
    const decoder = await open(DECODER);
    return new Runtime({ ...model, ort, encoder, decoder });
  }

  constructor({ config, vocabulary, info, language, ort, encoder, decoder }) {
    this.config = config;
    this.vocabulary = vocabulary;
    this.info = info;
    this.language = language; // for this vocabulary; null if there is none
    this.ort = ort;
    this.encoder = encoder;
    this.decoder = decoder;
  }

  /**
   * Encode an image at the working size of the model.
   *
   * @param image uint8 plane, white ink on black
   * @returns {Promise<StepModel>}
   */
  async encode(image) {
    const cell = (this.config.encoder?.mask_padding ?? true) ? STRIDE : 1;
    const [width, height] = [image.width, image.height].map(
      (side) => Math.ceil(side / cell) * cell,
    );
    const pixels = new Float32Array(width * height);
    const share = Math.fround(1 / 255);
    for (let y = 0; y < image.height; y++) {
      for (let x = 0; x < image.width; x++) {
        pixels[y * width + x] = image.data[y * image.width + x] * share;
      }
    }
    const images = new this.ort.Tensor("float32", pixels, [1, 1, height, width]);
    const encoded = await this.encoder.run({ images });
    const cells = Math.ceil(image.height / STRIDE) * Math.ceil(image.width / STRIDE);
    return new StepModel(this, encoded, cells);
  }

  /** Free the memory of the sessions. */
  async release() {
    await this.encoder.release();
    await this.decoder.release();
  }
}

/** A decoder over one encoded image that advances by one or more tokens per call. */
class StepModel {
  #runtime;
  #memory = {};
  #cache = {};
  #cells;
  #oneStep; // whether the decoder takes one token at a time

  constructor(runtime, encoded, cells) {
    this.#runtime = runtime;
    this.#cells = cells;
    const [ids] = runtime.decoder.inputMetadata.filter(({ name }) => name === "input_ids");
    this.#oneStep = ids?.shape?.[2] === 1;
    for (const [name, tensor] of Object.entries(encoded)) {
      (name.startsWith("cache") ? this.#cache : this.#memory)[name] = tensor;
    }
  }

  /** Return the state before the first token, which has one beam. */
  start() {
    return this.#cache;
  }

  /**
   * Return the distribution of the token that follows each given token.
   *
   * @param {number[][]} tokens for each beam the tokens of as many steps
   * @param state from `start` or `step`
   * @param {number[]} origin for each beam its index among the beams of the state
   * @returns `{ logProbs, state }`: `logProbs(beam, step)` is a Float32Array over the vocabulary
   */
  async step(tokens, state, origin) {
    const beams = tokens.length;
    const limit = this.#oneStep ? 1 : Math.max(1, Math.floor(MAX_CELLS / (beams * this.#cells)));
    const parts = [];
    for (let start = 0; start < tokens[0].length; start += limit) {
      const some = tokens.map((sequence) => sequence.slice(start, start + limit));
      const from = start ? origin.map((_, beam) => beam) : origin;
      const { log_probs: output, ...outputs } = await this.#run(some, state, from);
      parts.push({ data: output.data, steps: output.dims[2], size: output.dims[3] });
      state = Object.fromEntries(
        Object.entries(outputs).map(([name, tensor]) => [name.replace(/^new_/, ""), tensor]),
      );
    }
    const logProbs = (beam, step) => {
      const { data, steps, size } = parts[Math.floor(step / limit)];
      const start = (beam * steps + (step % limit)) * size;
      return data.subarray(start, start + size);
    };
    return { logProbs, state };
  }

  async #run(tokens, state, origin) {
    const { ort, decoder } = this.#runtime;
    const beams = tokens.length;
    const integers = (values, dims) =>
      new ort.Tensor("int64", BigInt64Array.from(values, BigInt), dims);
    const outputs = decoder.outputNames.filter(
      (name) => name === "log_probs" || name.startsWith("new_cache"),
    );
    const inputs = {
      input_ids: integers(tokens.flat(), [1, beams, tokens[0].length]),
      origin: integers([...origin.map(() => 0), ...origin], [2, 1, beams]),
      ...this.#memory,
      ...state,
    };
    const known = decoder.inputNames.map((name) => [name, inputs[name]]);
    return decoder.run(Object.fromEntries(known), outputs);
  }
}

function firstLine(error) {
  return String(error?.message ?? error)
    .trim()
    .split("\n")[0];
}
