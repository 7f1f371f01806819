/**
 * Rendering strokes exactly like CROHME's images.
 *
 * Ink is scaled so that its strokes are 28 pixels tall on average, points are rounded down to whole
 * pixels and joined by lines one pixel wide, and every pixel is dilated to a 3 x 3 square. A stroke
 * is `{ x, y }` with an array of coordinates each.
 */

import { largest, mean, smallest } from "./arrays.js";
import { InkError } from "./errors.js";

const STROKE_HEIGHT = 28; // mean height in pixels of the strokes of a CROHME image
const MAX_PIXELS = 2 ** 24; // of a rendered image
const MAX_LENGTH = 2 ** 22; // of all lines together, in pixels
const MARGIN = { before: 12, after: 11 };
const PEN = 3;
const MAX_COORDINATE = 1e9;

/** Return the strokes of a request as `{ x, y }` each, without empty ones. */
export function checkStrokes(strokes) {
  if (!Array.isArray(strokes)) throw new InkError("strokes: not a list of strokes");
  const checked = [];
  strokes.forEach((stroke, index) => {
    if (stroke?.length === 0) return;
    if (!isListOfPoints(stroke)) {
      throw new InkError(`strokes: stroke ${index + 1} is not a list of points (x, y)`);
    }
    const x = Float64Array.from(stroke, (point) => point[0]);
    const y = Float64Array.from(stroke, (point) => point[1]);
    if (![...x, ...y].every((value) => Math.abs(value) <= MAX_COORDINATE)) {
      throw new InkError(`strokes: stroke ${index + 1} has a coordinate that is out of range`);
    }
    checked.push({ x, y });
  });
  if (!checked.length) throw new InkError("strokes: there is no ink");
  return checked;
}

function isListOfPoints(stroke) {
  if (!Array.isArray(stroke)) return false;
  const size = stroke[0]?.length;
  return stroke.every(
    (point) =>
      point?.length === size && size >= 2 && [...point].every((value) => typeof value === "number"),
  );
}

/**
 * Scale ink to the pixels of its CROHME image.
 *
 * @returns the strokes in single precision, not rounded; the smallest coordinates lie in [0, 1).
 *   Consecutive points in one pixel are merged.
 */
export function strokesInPixels(strokes) {
  const grid = onGrid(strokes);
  // CROHME's images were made in single precision: where a product should be a whole number, its
  // last bit decides between two pixels.
  const scale = Math.fround(STROKE_HEIGHT / strokeHeight(grid));
  const scaled = grid.map(({ x, y }) => ({
    x: Float32Array.from(x, (value) => Math.fround(value) * scale),
    y: Float32Array.from(y, (value) => Math.fround(value) * scale),
  }));
  const left = Math.floor(smallest(scaled.map(({ x }) => smallest(x))));
  const top = Math.floor(smallest(scaled.map(({ y }) => smallest(y))));
  return scaled.map(({ x, y }) =>
    dropRepeats({ x: x.map((value) => value - left), y: y.map((value) => value - top) }),
  );
}

/** Drop points in the pixel of the previous point: they draw nothing. */
function dropRepeats({ x, y }) {
  const moves = (_, i) =>
    i === 0 ||
    Math.floor(x[i]) !== Math.floor(x[i - 1]) ||
    Math.floor(y[i]) !== Math.floor(y[i - 1]);
  return { x: x.filter(moves), y: y.filter(moves) };
}

/** Return integral coordinates: ink with decimals is rounded to thousandths. */
function onGrid(strokes) {
  const isWhole = (values) => values.every((value) => value === Math.floor(value));
  if (strokes.every(({ x, y }) => isWhole(x) && isWhole(y))) return strokes;
  const rounded = (values) => Float64Array.from(values, (value) => Math.floor(value * 1000 + 0.5));
  return strokes.map(({ x, y }) => ({ x: rounded(x), y: rounded(y) }));
}

function strokeHeight(strokes) {
  const extent = (values) => largest(values) - smallest(values);
  const widths = strokes.map(({ x }) => extent(x));
  const heights = strokes.map(({ y }) => extent(y));
  const sizes = heights.every((height, i) => height <= widths[i] / 5) ? widths : heights;
  const most = largest(sizes);
  if (!most) return STROKE_HEIGHT; // only dots
  return Math.max(1, Math.floor(mean(sizes.filter((size) => size > 0.1 * most))));
}

/**
 * Render strokes.
 *
 * @param strokes in pixels, as `strokesInPixels` returns them
 * @returns `{ data, width, height }`, uint8, white ink on black
 */
export function render(strokes) {
  const points = strokes.map(({ x, y }) => ({ x: x.map(Math.floor), y: y.map(Math.floor) }));
  const left = smallest(points.map(({ x }) => smallest(x)));
  const top = smallest(points.map(({ y }) => smallest(y)));
  const right = largest(points.map(({ x }) => largest(x)));
  const bottom = largest(points.map(({ y }) => largest(y)));
  const width = right - left + PEN + MARGIN.before + MARGIN.after;
  const height = bottom - top + PEN + MARGIN.before + MARGIN.after;
  if (!(width * height <= MAX_PIXELS)) {
    throw new InkError(`an image of ${width} x ${height} pixels is too large`);
  }
  checkLength(points);
  const data = new Uint8Array(width * height);
  // The pen's square begins one pixel before its center, which is one pixel behind the margin.
  const dot = (x, y) => {
    const start = (y - top + MARGIN.before) * width + x - left + MARGIN.before;
    for (let row = 0; row < PEN; row++)
      data.fill(255, start + row * width, start + row * width + PEN);
  };
  for (const stroke of points) drawStroke(stroke, dot);
  return { data, width, height };
}

function checkLength(strokes) {
  let length = 0;
  for (const { x, y } of strokes) {
    for (let i = 1; i < x.length; i++) {
      length += Math.max(Math.abs(x[i] - x[i - 1]), Math.abs(y[i] - y[i - 1]));
    }
  }
  if (length > MAX_LENGTH) {
    throw new InkError(`strokes of ${length} pixels together are too long to be rendered`);
  }
}

/**
 * Visit all pixels of the lines between consecutive points.
 *
 * A line takes as many steps as its longer side has pixels. Half a pixel is rounded away from the
 * start of the line, as in CROHME's images.
 */
function drawStroke({ x, y }, dot) {
  dot(x[0], y[0]);
  for (let i = 1; i < x.length; i++) {
    const [across, down] = [x[i] - x[i - 1], y[i] - y[i - 1]];
    const count = Math.max(Math.abs(across), Math.abs(down));
    const part = (move, step) =>
      Math.sign(move) * Math.floor((2 * Math.abs(move) * step + count) / (2 * count));
    for (let step = 1; step <= count; step++) {
      dot(x[i - 1] + part(across, step), y[i - 1] + part(down, step));
    }
  }
}
