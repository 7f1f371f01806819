/** Handwritten and printed mathematics to LaTeX. */

export * from "./errors.js";
export { FORMATS, convert } from "./formats.js";
export { Recognizer } from "./recognizer.js";
