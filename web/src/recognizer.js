/** The recognizer: strokes or an image in, LaTeX out. */

import { adaptiveSearch } from "./adaptive.js";
import { search } from "./bidirectional.js";
import { Calibrations, confidences, meanTokenProbability } from "./calibration.js";
import { ModelError, NoInkError, NotReadableError } from "./errors.js";
import { GrammarConstraint } from "./grammar.js";
import { checkFormat, convert } from "./formats.js";
import { readModel } from "./model.js";
import { noPrior } from "./ngram_model.js";
import { SCALE_FACTORS, decodingOptions, resolveOptions } from "./options.js";
import { readPixels } from "./pixels.js";
import { inputKind, prepareImage } from "./preparation.js";
import { checkStrokes, render, strokesInPixels } from "./render.js";
import { Runtime, STRIDE } from "./runtime.js";
import { atWorkingSize } from "./sizing.js";
import { splitStrokes } from "./splitting.js";
import { scoreSymbols } from "./symbol_confidence.js";
import { isValid } from "./syntax.js";
import { inLines, toLatex } from "./tokens.js";

const LINE_BREAK = "\\\\";
const UNSURE_BELOW = 0.5;
const UNSURE_BELOW_UNCALIBRATED = 0.9;
// Limit of the number of tokens, by the number of cells with ink.
const MIN_TOKENS = 12;
const TOKENS_PER_CELL = 4;

/** Recognizes handwritten or printed mathematics. */
export class Recognizer {
  #constraint;
  #last = Promise.resolve(); // ONNX Runtime Web runs one model at a time

  constructor(runtime) {
    this.runtime = runtime;
    const { thresholds, constrained = true } = runtime.info;
    this.calibrations = new Calibrations(runtime.info);
    this.thresholds = { readable: null, margin: null, ...thresholds };
    // A model that knows line breaks reads several lines at once.
    this.splitsLines = !runtime.vocabulary.has(LINE_BREAK);
    this.#constraint = constrained ? new GrammarConstraint(runtime.vocabulary) : null;
  }

  /**
   * Load a model folder.
   *
   * @param {string | URL} modelUrl
   * @param options see `LoadOptions` in `index.d.ts`
   * @returns {Promise<Recognizer>}
   */
  static async load(modelUrl, options = {}) {
    const model = await readModel(modelUrl, options);
    return new Recognizer(await Runtime.open(model, options));
  }

  /**
   * Recognize pen strokes.
   *
   * @param {number[][][]} strokes lists of points x, y (down), in any unit
   * @param options see `RecognitionOptions` in `index.d.ts`
   */
  async recognizeStrokes(strokes, options = {}) {
    const find = () => ({ images: this.prepareStrokes(strokes), kind: "ink" });
    return this.#answer(find, { path: "strokes", ...options });
  }

  /**
   * Recognize an image.
   *
   * @param imageData `{ data, width, height }` such as `ImageData`: 4, 3 or 1 bytes per pixel
   * @param options see `RecognitionOptions` in `index.d.ts`
   */
  async recognizeImage(imageData, options = {}) {
    const find = () => {
      const pixels = readPixels(imageData);
      return { images: this.#prepare(pixels), kind: inputKind(pixels) };
    };
    return this.#answer(find, { path: "image", ...options });
  }

  /** Return the rendered images of strokes, one per formula: uint8 planes, white ink on black. */
  prepareStrokes(strokes) {
    const inPixels = strokesInPixels(checkStrokes(strokes));
    const formulas = this.splitsLines ? splitStrokes(inPixels) : [inPixels];
    return formulas.map(render);
  }

  /** Return the prepared images of an image, one per formula: uint8 planes, light ink on black. */
  prepareImage(imageData) {
    return this.#prepare(readPixels(imageData));
  }

  /**
   * Return the hypotheses for a prepared image, best first.
   *
   * @param image what `prepareStrokes` or `prepareImage` return
   * @param options decoding options in camel case
   * @returns `{ tokens, score, forward, backward }` each, with the ids of tokens
   */
  async decode(image, options = {}) {
    const { config, vocabulary } = this.runtime;
    const resolved = resolveOptions(decodingOptions(options), config.decoder?.directions ?? "both");
    const atScale = (scale) => this.#atScale(image, SCALE_FACTORS[scale]);
    const constraint = resolved.constrained ? this.#constraint : null;
    const rules = {
      pad: vocabulary.pad,
      constraint,
      limit: lengthLimit(atScale(0)),
      isWellFormed: (ids) => ids.length > 0 && isValid(vocabulary.decode(ids)),
      prior: this.#prior(resolved),
    };
    const encode = (scale) => this.runtime.encode(atScale(scale));
    const { margin } = this.thresholds;
    if (resolved.adaptive && constraint && margin !== null) {
      return adaptiveSearch(encode, resolved, vocabulary, rules, margin);
    }
    const models = [];
    for (let scale = 0; scale < resolved.scales; scale++) models.push(await encode(scale));
    return search(models, resolved, vocabulary, rules);
  }

  /** Free the memory of the model. */
  async release() {
    await this.#last;
    await this.runtime.release();
  }

  #prepare(pixels) {
    const how = this.runtime.config.image?.preprocessing ?? "binary";
    return prepareImage(pixels, how, this.splitsLines);
  }

  /** Return the prior of the sequences in a search. */
  #prior({ languageWeight, lengthPower }) {
    const { language, info } = this.runtime;
    const weight = languageWeight ?? info.language?.weight ?? 0;
    return language?.prior(weight, lengthPower) ?? noPrior;
  }

  #atScale(image, factor) {
    const { scale = 1, margin = null, max_pixels: pixels } = this.runtime.config.image ?? {};
    return atWorkingSize(image, scale * factor, margin, Math.trunc((pixels ?? 320_000) * factor ** 2));
  }

  async #answer(find, { path, format, symbols: scored = false, ...options }) {
    const start = performance.now();
    decodingOptions(options); // an invalid option is reported before any work
    if (format) checkFormat(format);
    const found = await this.#inTurn(async () => {
      const { images, kind } = find();
      const calibration = this.calibrations.of(kind);
      const formulas = [];
      for (const image of images) {
        const formula = this.#recognition(await this.decode(image, options), calibration);
        formulas.push(scored ? await this.#scored(formula, image) : formula);
      }
      return { ...joinLines(formulas), isCalibrated: calibration !== null };
    });
    if (found.isEmpty) throw new NoInkError("no formula found");
    if (!found.readable) throw new NotReadableError(found.readings.map(rounded));
    const [best, ...alternatives] = found.readings.map(rounded);
    const limit = found.isCalibrated ? UNSURE_BELOW : UNSURE_BELOW_UNCALIBRATED;
    return {
      ...best,
      alternatives,
      path,
      mathml: convert(found.tokens, "mathml"),
      ...formatted(found.tokens, format),
      ...(scored ? { tokens: found.tokens, symbols: found.symbols } : {}),
      milliseconds: Math.round((performance.now() - start) * 10) / 10,
      unsure: found.confidence < limit,
    };
  }

  async #scored(formula, image) {
    const symbols = await scoreSymbols(this.runtime, this.#atScale(image, 1), formula.tokens);
    return { ...formula, symbols };
  }

  /** Run a job when those before it have ended. */
  #inTurn(job) {
    const result = this.#last.then(job);
    this.#last = result.catch(() => {});
    return result;
  }

  #recognition(hypotheses, calibration) {
    if (!hypotheses.length) {
      throw new ModelError("the model finds nothing at all; its weights are damaged");
    }
    const scores = confidences(hypotheses, calibration);
    const { vocabulary } = this.runtime;
    const readings = hypotheses.map(({ tokens: ids }, number) => {
      const tokens = vocabulary.decode(ids);
      return { latex: toLatex(inLines(tokens)), confidence: scores[number], tokens };
    });
    const least = this.thresholds.readable;
    const readable = least === null || meanTokenProbability(hypotheses[0]) >= least;
    const [{ tokens, confidence }] = readings;
    return { tokens, confidence, readings, readable, isEmpty: !tokens.length };
  }
}

/** Join the formulas of a source into one result. */
function joinLines(lines) {
  if (lines.length === 1) return lines[0];
  const tokens = lines.flatMap((line, number) =>
    number ? [LINE_BREAK, ...line.tokens] : line.tokens,
  );
  const confidence = lines.reduce((product, line) => product * line.confidence, 1);
  const readable = lines.filter((line) => line.readable);
  const count = readable.reduce((total, line) => total + line.tokens.length, 0);
  return {
    tokens,
    confidence,
    readings: [{ latex: toLatex(inLines(tokens)), confidence }],
    symbols: joinSymbols(lines),
    readable: 2 * count > tokens.length,
    isEmpty: lines.every((line) => line.isEmpty),
  };
}

/** Return the symbols of all lines with their indices in the joined tokens. */
function joinSymbols(lines) {
  let start = 0;
  return lines.flatMap(({ tokens, symbols = [] }) => {
    const moved = symbols.map((symbol) => ({ ...symbol, index: symbol.index + start }));
    start += tokens.length + 1; // and the line break
    return moved;
  });
}

function rounded({ latex, confidence }) {
  return { latex, confidence: Math.round(confidence * 1e6) / 1e6 };
}

/** Return the result in a format as `text`. */
function formatted(tokens, format) {
  return format ? { text: convert(tokens, format) } : {};
}

/** Return more tokens than the ink of an image at its working size can show. */
function lengthLimit({ data, width, height }) {
  const columns = Math.ceil(width / STRIDE);
  const cells = new Set();
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (data[y * width + x] > 127) {
        cells.add(Math.floor(y / STRIDE) * columns + Math.floor(x / STRIDE));
      }
    }
  }
  return MIN_TOKENS + TOKENS_PER_CELL * cells.size;
}
