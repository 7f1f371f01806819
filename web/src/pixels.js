/** From image data to the planes that image preparation reads. */

import { mean, sum } from "./arrays.js";
import { ImageError } from "./errors.js";
import { plane } from "./filters.js";

const MAX_PIXELS = 64_000_000;
const MAX_SIDE = 32_000;
const ALPHA_SAMPLE = 512; // columns and rows that decide what transparent areas become

/**
 * Return an image as a plane: one channel if it is gray, else three.
 *
 * Transparent areas become white, or black if the drawing itself is light.
 *
 * @param image `{ data, width, height }` with 1, 3 or 4 bytes per pixel, such as `ImageData`
 */
export function readPixels(image) {
  const { data, width, height } = image ?? {};
  checkSize(width, height);
  const channels = data?.length / (width * height);
  if (![1, 3, 4].includes(channels)) {
    throw new ImageError("image: expected data with 1, 3 or 4 bytes per pixel");
  }
  if (channels === 1) return plane(Uint8Array.from(data), width, height);
  const colors = channels === 4 ? flattenAlpha(data, width, height) : data;
  return isGray(colors)
    ? firstChannel(colors, width, height)
    : plane(Uint8Array.from(colors), width, height, 3);
}

function checkSize(width, height) {
  if (!(width >= 1 && height >= 1)) throw new ImageError("image: has no pixels");
  const size = `${width} × ${height} pixels`;
  if (Math.max(width, height) > MAX_SIDE) {
    throw new ImageError(`image: ${size}; at most ${MAX_SIDE} per side allowed`);
  }
  if (width * height > MAX_PIXELS) {
    throw new ImageError(`image: ${size}; at most ${MAX_PIXELS / 1e6} million allowed`);
  }
}

function isGray(colors) {
  for (let at = 0; at < colors.length; at += 3) {
    if (colors[at] !== colors[at + 1] || colors[at] !== colors[at + 2]) return false;
  }
  return true;
}

function firstChannel(colors, width, height) {
  return plane(
    Uint8Array.from({ length: width * height }, (_, at) => colors[3 * at]),
    width,
    height,
  );
}

/** Composite RGBA over white, or over black if the drawing is light; return RGB. */
function flattenAlpha(data, width, height) {
  const background = hasLightDrawing(data, width, height) ? 0 : 255;
  const result = new Uint8Array(width * height * 3);
  for (let at = 0, to = 0; at < data.length; at += 4) {
    const alpha = data[at + 3];
    for (let channel = 0; channel < 3; channel++) {
      // Division by 255 with rounding, as Pillow does it, with seven more bits.
      const value = (data[at + channel] * alpha + background * (255 - alpha)) * 128 + 0x4000;
      result[to++] = ((value >> 8) + value) >> 15;
    }
  }
  return result;
}

function hasLightDrawing(data, width, height) {
  const columns = nearestPlaces(width);
  const rows = nearestPlaces(height);
  const alphas = [];
  const weighted = [];
  for (const row of rows) {
    for (const column of columns) {
      const at = 4 * (row * width + column);
      const alpha = data[at + 3];
      alphas.push(alpha);
      weighted.push(((data[at] + data[at + 1] + data[at + 2]) / 3) * alpha);
    }
  }
  return sum(weighted) / Math.max(sum(alphas), 1) > 160 && mean(alphas) < 127;
}

function nearestPlaces(size) {
  const count = Math.min(size, ALPHA_SAMPLE);
  return Array.from({ length: count }, (_, i) => Math.floor(((i + 0.5) * size) / count));
}
