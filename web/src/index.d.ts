/** Handwritten and printed mathematics to LaTeX. */

export interface LoadOptions {
  /** Called while the model loads; the total is 0 while it is not known. */
  onProgress?: (loadedBytes: number, totalBytes: number) => void;
  /** Of ONNX Runtime Web, in order of preference; default `["wasm"]`, or `["webgpu", "wasm"]`. */
  executionProviders?: readonly string[];
  /**
   * Folder with the files of ONNX Runtime Web (`onnxruntime-web/dist`). Without it, the package
   * `onnxruntime-web` is imported by its name, which bundlers and Node resolve.
   */
  runtimeUrl?: string | URL;
  /** Threads; by default, ONNX Runtime Web decides in browsers, and Node uses one. */
  threads?: number;
  /** How files are loaded; `fetchFile` of `posformer/node` reads them from disk. */
  fetch?: (url: string) => Promise<Response>;
}

/** The options of the search; see `DecodingOptions` in Python. */
export interface DecodingOptions {
  /** Beam width per scale and direction; at least `topK` is used. Default 3. */
  beam?: number;
  /** Image scales, 1 to 3; 1 when greedy. Default 2. */
  scales?: number;
  /**
   * Search at one scale, and score the hypotheses at the others only where some come near the best
   * one. Applies to `topK` 1, and to models with a margin for it. Default true.
   */
  adaptive?: boolean;
  /** Take the best token at each step, left to right, at one scale. Default false. */
  greedy?: boolean;
  /** Hypotheses returned, best first. Default 1. */
  topK?: number;
  /** Default `both`; a model trained in one direction always uses `forward`. */
  directions?: "both" | "forward";
  /** Score each hypothesis in both directions. Default true. */
  rescore?: boolean;
  /** Decode only expressions that LaTeX accepts. Default true. */
  constrained?: boolean;
  /** Maximum number of tokens. Default 200. */
  maxLength?: number;
  /** 0 ranks by the sum of log-probabilities, 1 by their mean. Default 1. */
  lengthPower?: number;
  /** Finished hypotheses that end a search; null: the larger of 3 and `topK`. Default null. */
  finished?: number | null;
  /** When a search ends. Default `likely`. */
  stopping?: "likely" | "certain";
  /**
   * Weight of the model's language model, if it has one, against the mean log-probabilities of both
   * directions; null: the one in the model. Not used when greedy. Default null.
   */
  languageWeight?: number | null;
}

export type Format = "latex" | "mathml" | "markdown" | "typst" | "asciimath" | "unicode";

export interface RecognitionOptions extends DecodingOptions {
  /** Add the result in this format, as `text`. */
  format?: Format;
  /** Add `tokens` and `symbols`: the confidence and the alternatives of each symbol. */
  symbols?: boolean;
  /** Returned with the answer; default `strokes` or `image`. */
  path?: string;
}

/** One hypothesis. */
export interface Reading {
  latex: string;
  /**
   * Probability that every token is correct, 0 to 1, by the calibration for the kind of input. Of a
   * model without a calibration, the mean probability of a token.
   */
  confidence: number;
}

/** One token that a symbol may be. */
export interface TokenReading {
  token: string;
  /** Probability of the token in this place, 0 to 1; not calibrated. */
  confidence: number;
}

/** One symbol of a formula. */
export interface SymbolReading extends TokenReading {
  /** Index of the symbol in `tokens`, from 0. */
  index: number;
  /** Tokens that may replace it, most likely first. */
  alternatives: TokenReading[];
}

/** The result of recognition, as the HTTP API of Python returns it. */
export interface Answer extends Reading {
  /** The next best hypotheses, best first. */
  alternatives: Reading[];
  path: string;
  mathml: string;
  /** The result in the requested format. */
  text?: string;
  /** The tokens, if symbols are requested. */
  tokens?: string[];
  /** The symbols in reading order, if requested. */
  symbols?: SymbolReading[];
  milliseconds: number;
  /** Whether the result is more likely wrong than right. */
  unsure: boolean;
}

/** Pixels row by row: four bytes per pixel as in `ImageData`, three (RGB), or one (gray). */
export interface Pixels {
  data: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
}

/** A stroke is a list of points x, y (down), in any unit; further numbers are ignored. */
export type Strokes = readonly (readonly (readonly number[])[])[];

/** Recognizes handwritten or printed mathematics. Calls at the same time wait for each other. */
export class Recognizer {
  private constructor();
  /** Load a model folder; raises a `ModelError`. */
  static load(modelUrl: string | URL, options?: LoadOptions): Promise<Recognizer>;
  /** Recognize pen strokes; raises an `InkError`, `NoInkError` or `NotReadableError`. */
  recognizeStrokes(strokes: Strokes, options?: RecognitionOptions): Promise<Answer>;
  /** Recognize an image; raises an `ImageError`, `NoInkError` or `NotReadableError`. */
  recognizeImage(imageData: Pixels, options?: RecognitionOptions): Promise<Answer>;
  /** The images that the model reads, one per formula: one byte per pixel, white ink on black. */
  prepareStrokes(strokes: Strokes): Pixels[];
  /** Likewise for an image. */
  prepareImage(imageData: Pixels): Pixels[];
  /** Free the memory of the model. */
  release(): Promise<void>;
}

/** The names of the output formats. */
export const FORMATS: readonly Format[];

/** Write LaTeX as the recognizer returns it, or tokens in caption form, in another format. */
export function convert(source: string | readonly string[], format: Format): string;

/** Base class of all errors of this package; the message is one line. */
export class PosformerError extends Error {}
/** An option that is unknown or has an invalid value. */
export class ConfigError extends PosformerError {}
/** An image that cannot be read. */
export class ImageError extends PosformerError {}
/** An image without ink, or without a formula. */
export class NoInkError extends ImageError {}
/** Strokes that cannot be read or rendered. */
export class InkError extends PosformerError {}
/** A model that is missing, damaged, too new, or of a kind that only Python runs. */
export class ModelError extends PosformerError {}
/** LaTeX that cannot be parsed. */
export class LatexError extends PosformerError {
  readonly token: string | null;
  readonly number: number | null;
}
/** The best hypothesis is a guess: most likely there is no formula. */
export class NotReadableError extends PosformerError {
  /** All hypotheses, best first. */
  readonly alternatives: Reading[];
}
