/** Resizing images of bytes as OpenCV does: by area, linear and cubic. */

import { rint, toByte } from "./arrays.js";
import { plane } from "./filters.js";

const ONE = 2048; // fixed-point 1 of the weights of linear interpolation
const CUBIC = -0.75;
const float = Math.fround;

/**
 * Shrink an image by averaging areas (`INTER_AREA`).
 *
 * @param image uint8 plane with any number of channels
 * @param width of the result
 * @param height of the result
 * @param scaleX pixels of the image per pixel of the result; by default the ratio of the sizes
 * @param scaleY likewise
 */
export function resizeArea(
  image,
  width,
  height,
  scaleX = image.width / width,
  scaleY = image.height / height,
) {
  if (width === image.width && height === image.height) return image;
  if (scaleX < 1 || scaleY < 1) return resizeLinear(image, width, height, true);
  if (isWhole(scaleX) && isWhole(scaleY)) {
    return averageBlocks(image, width, height, rint(scaleX), rint(scaleY));
  }
  const channels = image.channels ?? 1;
  const across = areaWeights(image.width, width, scaleX);
  const down = areaWeights(image.height, height, scaleY);
  const line = width * channels;
  const sums = new Float32Array(line);
  const row = new Float32Array(line);
  const result = new Uint8Array(height * line);
  let current = 0;
  for (const { target, source, weight } of down) {
    if (target !== current) {
      for (let i = 0; i < line; i++) result[current * line + i] = toByte(sums[i]);
      sums.fill(0);
      current = target;
    }
    shrinkRow(image, source, across, channels, row);
    for (let i = 0; i < line; i++) sums[i] += float(weight * row[i]);
  }
  for (let i = 0; i < line; i++) result[current * line + i] = toByte(sums[i]);
  return plane(result, width, height, channels);
}

function isWhole(scale) {
  return Math.abs(scale - rint(scale)) < Number.EPSILON;
}

function shrinkRow({ data, width }, number, across, channels, row) {
  row.fill(0);
  const start = number * width * channels;
  for (const { target, source, weight } of across) {
    for (let channel = 0; channel < channels; channel++) {
      row[target * channels + channel] += float(data[start + source * channels + channel] * weight);
    }
  }
}

/** The share of each source pixel in each target pixel, by target. */
function areaWeights(size, newSize, scale) {
  const weights = [];
  for (let target = 0; target < newSize; target++) {
    const from = target * scale;
    const to = from + scale;
    const cell = Math.min(scale, size - from);
    const last = Math.min(Math.floor(to), size - 1);
    const first = Math.min(Math.ceil(from), last);
    if (first - from > 1e-3) {
      weights.push({ target, source: first - 1, weight: float((first - from) / cell) });
    }
    for (let source = first; source < last; source++) {
      weights.push({ target, source, weight: float(1 / cell) });
    }
    if (to - last > 1e-3) {
      const weight = float(Math.min(to - last, 1, cell) / cell);
      weights.push({ target, source: last, weight });
    }
  }
  return weights;
}

function averageBlocks(image, width, height, across, down) {
  const channels = image.channels ?? 1;
  const { data } = image;
  const result = new Uint8Array(width * height * channels);
  const share = float(1 / (across * down));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let channel = 0; channel < channels; channel++) {
        let total = 0;
        for (let row = y * down; row < (y + 1) * down; row++) {
          for (let column = x * across; column < (x + 1) * across; column++) {
            total += data[(row * image.width + column) * channels + channel];
          }
        }
        const isSquareOfTwo = across === 2 && down === 2;
        const average = isSquareOfTwo ? (total + 2) >> 2 : toByte(float(total * share));
        result[(y * width + x) * channels + channel] = average;
      }
    }
  }
  return plane(result, width, height, channels);
}

/** Resize by linear interpolation (`INTER_LINEAR`), uint8 with one channel. */
export function resizeLinear(image, width, height, byArea = false) {
  if (width === image.width && height === image.height) return image;
  const across = linearWeights(image.width, width, byArea, true);
  const down = linearWeights(image.height, height, byArea, false);
  const rows = new Map();
  const rowOf = (number) => {
    if (!rows.has(number)) rows.set(number, interpolateRow(image, number, across, 2));
    return rows.get(number);
  };
  const result = new Uint8Array(width * height);
  for (let y = 0; y < height; y++) {
    const { places, weights } = down[y];
    const [first, second] = places.map(rowOf);
    for (const number of rows.keys()) if (number < places[0]) rows.delete(number);
    for (let x = 0; x < width; x++) {
      // The precision of OpenCV's vector instructions: 16 bits of each product.
      const upper = ((first[x] >> 4) * weights[0]) >> 16;
      const lower = ((second[x] >> 4) * weights[1]) >> 16;
      result[y * width + x] = Math.min(255, Math.max(0, (upper + lower + 2) >> 2));
    }
  }
  return plane(result, width, height);
}

/**
 * For each target pixel the two source pixels between which it lies, and their weights. At the
 * upper and lower edge, where both are the same, OpenCV keeps two weights.
 */
function linearWeights(size, newSize, byArea, isRow) {
  const scale = size / newSize;
  return Array.from({ length: newSize }, (_, target) => {
    let source;
    let share;
    if (byArea) {
      source = Math.floor(target * scale);
      share = float(target + 1 - (source + 1) / scale);
      share = share <= 0 ? 0 : share - Math.floor(share);
    } else {
      const place = float((target + 0.5) * scale - 0.5);
      source = Math.floor(place);
      share = float(place - source);
    }
    if (isRow) {
      if (source < 0) [source, share] = [0, 0];
      if (source >= size - 1) [source, share] = [size - 1, 0];
    }
    const places = [Math.max(source, 0), Math.min(source + 1, size - 1)];
    return { places, weights: [rint(float(1 - share) * ONE), rint(share * ONE)] };
  });
}

function interpolateRow({ data, width }, number, across, taps) {
  const row = new Float64Array(across.length);
  for (let x = 0; x < row.length; x++) {
    const { places, weights } = across[x];
    let value = 0;
    for (let i = 0; i < taps; i++) value += data[number * width + places[i]] * weights[i];
    row[x] = value;
  }
  return row;
}

/** Enlarge by cubic interpolation (`INTER_CUBIC`), uint8 with one channel. */
export function resizeCubic(image, width, height) {
  if (width === image.width && height === image.height) return image;
  const across = cubicWeights(image.width, width);
  const down = cubicWeights(image.height, height);
  const rows = new Map();
  const rowOf = (number) => {
    if (!rows.has(number)) rows.set(number, interpolateRow(image, number, across, 4));
    return rows.get(number);
  };
  const result = new Uint8Array(width * height);
  for (let y = 0; y < height; y++) {
    const { places, weights } = down[y];
    const four = places.map(rowOf);
    for (const number of rows.keys()) if (number < places[0]) rows.delete(number);
    for (let x = 0; x < width; x++) {
      let value = 0;
      for (let i = 0; i < 4; i++) value += four[i][x] * weights[i];
      result[y * width + x] = toByte(value);
    }
  }
  return plane(result, width, height);
}

function cubicWeights(size, newSize) {
  const scale = size / newSize;
  return Array.from({ length: newSize }, (_, target) => {
    const place = float((target + 0.5) * scale - 0.5);
    const source = Math.floor(place);
    const x = float(place - source);
    const first = ((CUBIC * (x + 1) - 5 * CUBIC) * (x + 1) + 8 * CUBIC) * (x + 1) - 4 * CUBIC;
    const second = ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1;
    const third = ((CUBIC + 2) * (1 - x) - (CUBIC + 3)) * (1 - x) * (1 - x) + 1;
    const weights = [first, second, third, 1 - first - second - third];
    const places = [-1, 0, 1, 2].map((step) => Math.min(size - 1, Math.max(0, source + step)));
    return { places, weights };
  });
}
