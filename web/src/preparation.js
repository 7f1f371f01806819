/** From any image of formulas to images like those that a model was trained on. */

import { ModelError } from "./errors.js";
import { preparePhoto, splitPhoto } from "./prepare.js";

const CLEAN_SHARE = 0.5; // of the pixels that have exactly the same value

/**
 * Return the kind of an image, which its most frequent value decides.
 *
 * Half of a clean image has exactly the color of the paper, while light and noise vary in a
 * photograph. Black and white images with little ink on black are renderings of ink.
 *
 * @param image uint8 plane with one channel, or three (RGB)
 * @returns {"ink" | "photo" | "clean"}
 */
export function inputKind({ data, width, height, channels = 1 }) {
  const counts = new Uint32Array(256);
  for (let at = channels === 3 ? 1 : 0; at < data.length; at += channels) counts[data[at]]++;
  const size = width * height;
  if (counts[0] > size / 2 && counts[0] + counts[255] === size) return "ink";
  return Math.max(...counts) >= CLEAN_SHARE * size ? "clean" : "photo";
}

/**
 * Find the formulas of an image and bring them to the size of CROHME's images.
 *
 * @param image uint8 plane with one channel, or three (RGB)
 * @param {string} preprocessing what the model was trained on; JavaScript knows `grey` only
 * @param {boolean} split split formulas that stand below each other
 * @returns one plane per formula: uint8, light ink on black
 */
export function prepareImage(image, preprocessing, split) {
  if (preprocessing !== "grey") {
    const reason = `images that are prepared as ${preprocessing}; strokes work`;
    throw new ModelError(`this model needs ${reason}`);
  }
  const prepared = preparePhoto(image);
  return split ? splitPhoto(prepared) : [prepared];
}
