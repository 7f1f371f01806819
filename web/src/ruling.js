/** Removing the printed lines of ruled and squared paper. */

import { largest, median, rint, smallest } from "./arrays.js";
import { connectedComponents, maskOf } from "./components.js";
import { crop, dilate, open, transpose } from "./filters.js";
import { penWidth } from "./pen.js";
import { above } from "./sizing.js";

const MIN_LINE_CONTRAST = 0.15; // relative to the contrast of ink
const MAX_LINES = 100; // per direction; A4 paper with squares of 5 mm has 60
const MAX_LINE_PIXELS = 200_000; // considered per component
const MAX_SLOPE = 0.1; // of a printed line in a photo that is held slightly askew

/**
 * Remove ruled or squared lines from an ink mask; strokes that cross them stay.
 *
 * A line counts as printed if it leaves the image at both ends, or if several similar lines run in
 * parallel. Fraction bars, minus signs and brackets do neither.
 *
 * @param ink mask of 0 and 1
 * @param contrast `{ map, level }`: how much darker than paper each pixel is, and ink is
 */
export function eraseRuling(ink, contrast) {
  const faint = above(contrast.map, Math.fround(MIN_LINE_CONTRAST * contrast.level));
  let horizontal = findRuledLines(faint, true);
  if (horizontal.length === 1 && horizontal[0].thickness > 0.7 * penWidth(ink)) {
    horizontal = []; // a fraction bar in an image that is cropped to the bar
  }
  let result = removeLines(ink, contrast, horizontal);
  // Brackets and digits of the same height look like a family of vertical lines.
  const vertical = findRuledLines(transpose(faint), horizontal.length > 0);
  if (vertical.length) {
    const turned = { ...contrast, map: transpose(contrast.map) };
    result = transpose(removeLines(transpose(result), turned, vertical));
    // Fragments that were connected by vertical lines are loose now.
    result = removeLines(result, contrast, horizontal);
  }
  return result;
}

/**
 * Find printed lines that run from left to right.
 *
 * @returns lines `{ rows, thickness, left, right, slope }`: nearly horizontal curves with the y of
 *   their center in every column
 */
function findRuledLines(faint, allowFamilies) {
  const { width } = faint;
  const length = Math.max(15, width >> 5);
  // The runs of a slightly rotated line are short; dilating vertically makes them long enough.
  const runs = open(dilate(faint, 1, 3), length, 1);
  if (shareOfColumns(runs) < 0.25) return [];
  const { labels, boxes } = connectedComponents(dilate(runs, 2 * length, 3));
  const candidates = lineCandidates(boxes, faint, allowFamilies);
  if (candidates.length > MAX_LINES) return []; // hatching or noise
  const lines = [];
  for (const label of candidates) {
    const pixels = pixelsOf(label, boxes[label], labels, runs);
    lines.push(...fitLines(pixels, faint, MAX_LINES + 1 - lines.length));
    if (lines.length > MAX_LINES) return [];
  }
  return selectPrinted(lines, faint, allowFamilies);
}

function shareOfColumns({ data, width }) {
  const marked = new Uint8Array(width);
  for (let at = 0; at < data.length; at++) if (data[at]) marked[at % width] = 1;
  return marked.reduce((one, other) => one + other, 0) / width;
}

/** Return the labels of components whose boxes allow a printed line. */
function lineCandidates(boxes, { width, height }, allowFamilies) {
  const labels = boxes.map((_, label) => label).slice(1);
  const isFlat = (label) => boxes[label].height <= 0.6 * boxes[label].width;
  const isLong = (label) => isFlat(label) && boxes[label].width > width / 2;
  const atLeft = ({ left }) => left === 0;
  const atRight = (box) => box.left + box.width === width;
  const isThrough = (label) => isLong(label) && atLeft(boxes[label]) && atRight(boxes[label]);
  if (labels.some(isThrough)) {
    const sides = (box) =>
      atLeft(box) + atRight(box) + (box.top <= 5) + (box.top + box.height >= height - 5);
    return labels.filter(
      (label) => isThrough(label) || (isFlat(label) && sides(boxes[label]) >= 2),
    );
  }
  const long = labels.filter(isLong);
  return allowFamilies && long.length >= 4 ? long : [];
}

/** Return `{ rows, columns }` of the marked pixels of a component. */
function pixelsOf(label, { left, top, width, height }, labels, runs) {
  const rows = [];
  const columns = [];
  for (let y = top; y < top + height; y++) {
    for (let x = left; x < left + width; x++) {
      const at = y * runs.width + x;
      if (labels[at] !== label || !runs.data[at]) continue;
      rows.push(y);
      columns.push(x);
    }
  }
  return { rows, columns };
}

function everyNth({ rows, columns }, step) {
  if (step === 1) return { rows, columns };
  const isNth = (_, i) => i % step === 0;
  return { rows: rows.filter(isNth), columns: columns.filter(isNth) };
}

function where({ rows, columns }, test) {
  const found = { rows: [], columns: [] };
  for (let i = 0; i < rows.length; i++) {
    if (!test(rows[i], columns[i])) continue;
    found.rows.push(rows[i]);
    found.columns.push(columns[i]);
  }
  return found;
}

/** Fit up to `limit` lines to the pixels of a component; several if strokes connect them. */
function fitLines(pixels, faint, limit) {
  const lines = [];
  let rest = everyNth(pixels, 1 + Math.floor(pixels.rows.length / MAX_LINE_PIXELS));
  const columnCount = () => new Set(rest.columns).size;
  const fewest = columnCount() / 2;
  while (lines.length < limit && columnCount() >= fewest && rest.rows.length) {
    const line = fitLine(rest, faint);
    if (!line) break;
    lines.push(line);
    rest = where(rest, (row, column) => Math.abs(row - line.rows[column]) > 4);
  }
  return lines;
}

/** Fit a smooth curve to most of the pixels; null if they do not follow one. */
function fitLine(all, faint) {
  const left = smallest(all.columns);
  const right = largest(all.columns);
  const pixels = everyNth(all, Math.max(1, Math.floor(all.rows.length / 4000)));
  const degree = right - left > faint.width / 2 ? 2 : 1; // paper is rarely quite flat
  const straight = voteStraightLine(pixels);
  let curve = refine(pixels, straight, degree, [4, 2.5, 1.5]);
  const found = countOn(curve, pixels);
  if (found < 0.9 * pixels.rows.length) {
    // Curled paper needs a wide tolerance at first, strokes along the line a narrow one.
    const other = refine(pixels, straight, degree, [8, 4, 2.5, 1.5]);
    if (countOn(other, pixels) > found) curve = other;
  }
  const rows = Float64Array.from({ length: faint.width }, (_, column) => curve(column));
  const near = countNear(faint, rows, left, right, 1);
  if (near.filter((count) => count > 0).length / near.length < 0.75) return null;
  const thickness = median(countNear(faint, rows, left, right, 4).filter((count) => count > 0));
  const slope = (rows[right] - rows[left]) / Math.max(right - left, 1);
  return { rows, thickness, left, right, slope };
}

/** Count the pixels on a curve. */
function countOn(curve, { rows, columns }) {
  return rows.filter((row, i) => Math.abs(row - curve(columns[i])) <= 1.5).length;
}

/** Refit a curve to the pixels near it, with decreasing tolerance. */
function refine(pixels, curve, degree, limits) {
  for (const tolerance of limits) {
    const near = where(pixels, (row, column) => Math.abs(row - curve(column)) <= tolerance);
    if (near.rows.length <= 10) break;
    curve = fitCurve(near, degree);
  }
  return curve;
}

/** Fit a polynomial by least squares, through the normal equations; return it as a function. */
function fitCurve({ rows, columns }, degree) {
  const first = smallest(columns);
  const last = largest(columns);
  const middle = (first + last) / 2;
  const reach = (last - first) / 2 + 1e-9;
  const size = degree + 1;
  const system = Array.from({ length: size }, () => new Float64Array(size + 1));
  for (let i = 0; i < rows.length; i++) {
    const x = (columns[i] - middle) / reach;
    const powers = [1, x, x * x];
    for (let one = 0; one < size; one++) {
      for (let other = 0; other < size; other++) system[one][other] += powers[one] * powers[other];
      system[one][size] += powers[one] * rows[i];
    }
  }
  for (let one = 0; one < size; one++) system[one][one] += 1e-9 * rows.length;
  const coefficients = solve(system);
  return (column) => {
    const x = (column - middle) / reach;
    return coefficients.reduceRight((value, coefficient) => value * x + coefficient, 0);
  };
}

/** Solve a small linear system, given as rows with the right side behind, by elimination. */
function solve(system) {
  const size = system.length;
  for (let step = 0; step < size; step++) {
    let pivot = step;
    for (let row = step + 1; row < size; row++) {
      if (Math.abs(system[row][step]) > Math.abs(system[pivot][step])) pivot = row;
    }
    [system[step], system[pivot]] = [system[pivot], system[step]];
    for (let row = 0; row < size; row++) {
      if (row === step) continue;
      const factor = system[row][step] / system[step][step];
      for (let at = step; at <= size; at++) system[row][at] -= factor * system[step][at];
    }
  }
  return system.map((row, number) => row[size] / row[number]);
}

/** Return the straight line through most pixels (Hough transform). */
function voteStraightLine({ rows, columns }) {
  const slopes = Array.from({ length: 41 }, (_, i) => -MAX_SLOPE + (i * 2 * MAX_SLOPE) / 40);
  const starts = slopes.map((slope) => rows.map((row, i) => rint(row - slope * columns[i])));
  const lowest = smallest(starts.map(smallest));
  const size = largest(starts.map(largest)) - lowest + 3; // with an empty bin at each end
  let best = { votes: -1, slope: 0, start: 0 };
  slopes.forEach((slope, number) => {
    const counts = new Int32Array(size);
    for (const start of starts[number]) counts[start - lowest + 1]++;
    for (let bin = 0; bin < size - 2; bin++) {
      const votes = counts[bin] + counts[bin + 1] + counts[bin + 2];
      if (votes > best.votes) best = { votes, slope, start: lowest + bin };
    }
  });
  return (column) => best.slope * column + best.start;
}

/** Count the marked pixels within a distance of a curve, in each column between its ends. */
function countNear({ data, width, height }, rows, left, right, distance) {
  const counts = new Float64Array(right - left + 1);
  for (let column = left; column <= right; column++) {
    const center = rint(rows[column]);
    for (let row = center - distance; row <= center + distance; row++) {
      if (row >= 0 && row < height && data[row * width + column]) counts[column - left]++;
    }
  }
  return counts;
}

/** Return the lines that leave the image at both ends or belong to a family of parallels. */
function selectPrinted(lines, { width, height }, allowFamilies) {
  const leavesAt = (line, column, border) => {
    const row = line.rows[column];
    const isAboveOrBelow = Math.min(row, height - 1 - row) <= 5 && Math.abs(line.slope) > 0.005;
    return Math.abs(column - border) <= 3 + 0.003 * width || isAboveOrBelow;
  };
  const leaving = lines.filter(
    (line) => leavesAt(line, line.left, 0) && leavesAt(line, line.right, width - 1),
  );
  const through = leaving.filter((line) => line.right - line.left > 0.9 * width);
  if (through.length) {
    return leaving.filter((line) =>
      through.some((other) => Math.abs(other.slope - line.slope) < 0.03),
    );
  }
  if (!allowFamilies) return [];
  const near = 0.05 * width;
  const isSimilar = (line, other) =>
    Math.abs(line.left - other.left) < near &&
    Math.abs(line.right - other.right) < near &&
    Math.abs(line.slope - other.slope) < 0.02 &&
    line.right - line.left > width / 2;
  return lines.filter((line) => lines.filter((other) => isSimilar(line, other)).length >= 4);
}

/** Remove the pixels that belong to horizontal lines and to no stroke. */
function removeLines(ink, contrast, lines) {
  if (!lines.length) return ink;
  const result = { ...ink, data: Uint8Array.from(ink.data) };
  const beside = new Uint8Array(ink.data.length);
  for (const line of lines) removeLine(line, ink, contrast, result, beside);
  const thickest = largest(lines.map(({ thickness }) => thickness));
  // Where lines leave the image in pieces too short to be found.
  const rim = (Math.trunc(2 * thickest) + 6) * ink.width;
  beside.fill(1, 0, rim);
  beside.fill(1, Math.max(0, beside.length - rim));
  return dropFragments(result, beside, thickest + 2);
}

function removeLine({ rows, thickness }, ink, contrast, result, beside) {
  const { width, height } = ink;
  const radius = Math.ceil(thickness / 2) + 2;
  const first = Math.max(0, Math.floor(smallest(rows)) - 2 * radius);
  const last = Math.min(height, Math.ceil(largest(rows)) + 2 * radius + 1);
  if (last <= first) return;
  const map = contrast.map.data;
  const onLine = [];
  for (let y = first; y < last; y++) {
    for (let x = 0; x < width; x++) {
      const distance = Math.abs(y - rows[x]);
      if (distance <= 2 * radius) beside[y * width + x] = 1;
      if (distance <= 0.6) onLine.push(map[y * width + x]);
    }
  }
  const shade = median(onLine);
  const isFaint = shade < 0.6 * contrast.level;
  const strokes = isFaint ? null : inTallRuns(ink, thickness + 2, first, last);
  const darkest = Math.fround((shade + contrast.level) / 2);
  for (let y = first; y < last; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      const isKept = isFaint ? map[at] > darkest : strokes[at - first * width] > 0;
      if (Math.abs(y - rows[x]) <= radius && !isKept) result.data[at] = 0;
    }
  }
}

/** Mark the pixels of some rows that belong to vertical runs of this height: strokes. */
function inTallRuns(ink, height, first, last) {
  const size = Math.ceil(height);
  const start = Math.max(0, first - size);
  const runs = open(crop(ink, 0, start, ink.width, last + size), 1, size);
  return runs.data.subarray((first - start) * ink.width, (last - start) * ink.width);
}

/** Drop the remains of lines: flat components that lie entirely beside them. */
function dropFragments(ink, beside, height) {
  const parts = connectedComponents(ink);
  const kept = parts.boxes.map((box) => box.height > height);
  parts.labels.forEach((label, at) => {
    if (!beside[at]) kept[label] = true;
  });
  kept[0] = false;
  return maskOf(parts, kept);
}
