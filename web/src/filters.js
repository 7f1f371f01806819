/**
 * The filters of OpenCV that image preparation uses, with the same borders and rounding.
 *
 * A plane is `{ data, width, height }` with one value per pixel; `channels` is 1 if missing.
 */

import { toByte } from "./arrays.js";

/** Return a plane of the given size and kind. */
export function plane(data, width, height, channels = 1) {
  return { data, width, height, channels };
}

/** Return the place inside 0…size-1 that a reflected border shows: `cb|abc|cb`, or `cba|abc|cba`. */
function reflect(place, size, repeatsEdge) {
  if (size === 1) return 0;
  const edge = repeatsEdge ? 1 : 0;
  while (place < 0 || place >= size) {
    place = place < 0 ? -place - edge : 2 * size - 2 + edge - place;
  }
  return place;
}

/** Return for `size + 2 * border` places the one that each shows. */
function reflectedPlaces(size, border, repeatsEdge) {
  return Int32Array.from({ length: size + 2 * border }, (_, i) =>
    reflect(i - border, size, repeatsEdge),
  );
}

/** Add a border that mirrors the image, its edge included (`BORDER_REFLECT`). */
export function padReflected(image, border) {
  const { data, width, height } = image;
  const columns = reflectedPlaces(width, border, true);
  const rows = reflectedPlaces(height, border, true);
  const result = new data.constructor(rows.length * columns.length);
  let at = 0;
  for (const row of rows) for (const column of columns) result[at++] = data[row * width + column];
  return plane(result, columns.length, rows.length);
}

/** Return a part of a plane; limits are cut off at the edges of the image. */
export function crop(image, left, top, right, bottom) {
  const { data, width, height, channels = 1 } = image;
  const [x, y] = [Math.max(0, left), Math.max(0, top)];
  const [w, h] = [
    Math.max(0, Math.min(right, width) - x),
    Math.max(0, Math.min(bottom, height) - y),
  ];
  const result = new data.constructor(w * h * channels);
  for (let row = 0; row < h; row++) {
    const start = ((y + row) * width + x) * channels;
    result.set(data.subarray(start, start + w * channels), row * w * channels);
  }
  return plane(result, w, h, channels);
}

/** Add pixels of value zero around a plane. */
export function pad(image, top, bottom, left, right) {
  const { data, width, height } = image;
  const [w, h] = [width + left + right, height + top + bottom];
  const result = new data.constructor(w * h);
  for (let row = 0; row < height; row++) {
    result.set(data.subarray(row * width, (row + 1) * width), (row + top) * w + left);
  }
  return plane(result, w, h);
}

export function transpose({ data, width, height }) {
  const result = new data.constructor(data.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) result[x * height + y] = data[y * width + x];
  }
  return plane(result, height, width);
}

/** Return the box of the pixels that are not zero: `{ left, top, width, height }`, zeros if none. */
export function boundingBox({ data, width, height }) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (!data[y * width + x]) continue;
      if (x < left) left = x;
      if (x > right) right = x;
      if (top === height) top = y;
      bottom = y;
    }
  }
  if (right < 0) return { left: 0, top: 0, width: 0, height: 0 };
  return { left, top, width: right - left + 1, height: bottom - top + 1 };
}

/** Which of two numbers a window keeps. */
const KEEP = { dilate: (a, b) => (a > b ? a : b), erode: (a, b) => (a < b ? a : b) };

/** Slide a window of `size` over each line of a plane and keep its largest or smallest value. */
function slide(source, target, lines, length, lineStep, step, size, keep, outside) {
  const anchor = size >> 1;
  const padded = new Uint8Array(length + size - 1).fill(outside);
  const before = new Uint8Array(padded.length);
  const after = new Uint8Array(padded.length);
  for (let line = 0; line < lines; line++) {
    const start = line * lineStep;
    for (let i = 0; i < length; i++) padded[anchor + i] = source[start + i * step];
    // Van Herk: running extremes of blocks as long as the window, from both sides.
    for (let i = 0; i < padded.length; i++) {
      before[i] = i % size ? keep(before[i - 1], padded[i]) : padded[i];
    }
    for (let i = padded.length - 1; i >= 0; i--) {
      const isLast = i === padded.length - 1 || i % size === size - 1;
      after[i] = isLast ? padded[i] : keep(after[i + 1], padded[i]);
    }
    for (let i = 0; i < length; i++)
      target[start + i * step] = keep(after[i], before[i + size - 1]);
  }
}

function morph(image, across, down, keep, outside) {
  const { width, height } = image;
  let data = image.data;
  if (across > 1) {
    const result = new Uint8Array(data.length);
    slide(data, result, height, width, width, 1, across, keep, outside);
    data = result;
  }
  if (down > 1) {
    const result = new Uint8Array(data.length);
    slide(data, result, width, height, 1, width, down, keep, outside);
    data = result;
  }
  return plane(data, width, height);
}

/** The largest value in a window of `across` × `down` pixels, uint8. */
export function dilate(image, across, down = across) {
  return morph(image, across, down, KEEP.dilate, 0);
}

/** The smallest value in a window of `across` × `down` pixels, uint8. */
export function erode(image, across, down = across) {
  return morph(image, across, down, KEEP.erode, 255);
}

/** Erosion, then dilation. */
export function open(image, across, down) {
  return dilate(erode(image, across, down), across, down);
}

/** Dilation, then erosion. */
export function close(image, across, down) {
  return erode(dilate(image, across, down), across, down);
}

/** The mean of windows of `side` × `side` pixels, uint8, with a mirrored border. */
export function boxBlur(image, side) {
  const { data, width, height, channels = 1 } = image;
  const half = side >> 1;
  const columns = reflectedPlaces(width, half, false);
  const rows = reflectedPlaces(height, half, false);
  const sums = new Int32Array(width * channels); // of the rows of the window, by column
  const addRow = (row, sign) => {
    const start = row * width * channels;
    for (let i = 0; i < sums.length; i++) sums[i] += sign * data[start + i];
  };
  for (let i = 0; i < side - 1; i++) addRow(rows[i], 1);
  const result = new Uint8Array(data.length);
  const share = 1 / (side * side);
  for (let y = 0; y < height; y++) {
    addRow(rows[y + side - 1], 1);
    for (let channel = 0; channel < channels; channel++) {
      let total = 0;
      for (let i = 0; i < side - 1; i++) total += sums[columns[i] * channels + channel];
      for (let x = 0; x < width; x++) {
        total += sums[columns[x + side - 1] * channels + channel];
        result[(y * width + x) * channels + channel] = toByte(total * share);
        total -= sums[columns[x] * channels + channel];
      }
    }
    addRow(rows[y], -1);
  }
  return plane(result, width, height, channels);
}

/** Gaussian blur of float32 with a mirrored border. */
export function gaussianBlur(image, sigma) {
  const { data, width, height } = image;
  const size = Math.round(sigma * 8 + 1) | 1;
  const half = size >> 1;
  const kernel = Float64Array.from({ length: size }, (_, i) =>
    Math.exp(-((i - half) ** 2) / (2 * sigma * sigma)),
  );
  const total = kernel.reduce((one, other) => one + other);
  kernel.forEach((weight, i) => (kernel[i] = weight / total));
  const columns = reflectedPlaces(width, half, false);
  const rows = reflectedPlaces(height, half, false);
  const across = new Float32Array(data.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let value = 0;
      for (let i = 0; i < size; i++) value += kernel[i] * data[y * width + columns[x + i]];
      across[y * width + x] = value;
    }
  }
  const result = new Float32Array(data.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let value = 0;
      for (let i = 0; i < size; i++) value += kernel[i] * across[rows[y + i] * width + x];
      result[y * width + x] = value;
    }
  }
  return plane(result, width, height);
}

/** The median of 5 × 5 pixels of a plane that has a border of two pixels, which is left out. */
export function medianOf25(padded) {
  const width = padded.width - 4;
  const height = padded.height - 4;
  const result = new Float32Array(width * height);
  const window = new Float32Array(25);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let row = 0; row < 5; row++) {
        const start = (y + row) * padded.width + x;
        for (let column = 0; column < 5; column++) {
          window[5 * row + column] = padded.data[start + column];
        }
      }
      result[y * width + x] = window.sort()[12];
    }
  }
  return plane(result, width, height);
}
