/** Which connected parts of a photograph belong to its formula. */

import { largest, mean } from "./arrays.js";
import { connectedComponents, maskOf } from "./components.js";
import { penWidth } from "./pen.js";

/**
 * Find the symbols in a mask of ink.
 *
 * @param mask plane of 0 and 1
 * @param noInk returns the error to raise if there are none
 * @returns `{ boxes, pen }`: the boxes of connected parts and the width of their strokes
 */
export function findSymbols(mask, noInk) {
  const parts = connectedComponents(mask);
  const { boxes } = parts;
  const pen = penWidth(awayFromEdges(parts)) || penWidth(mask);
  const labels = boxes.map((_, label) => label).slice(1);
  let kept = labels.filter((label) => boxes[label].area >= 0.5 * pen ** 2);
  const isEdge = edgeMasses(parts, kept, pen);
  kept = kept.filter((_, place) => !isEdge[place]);
  if (!kept.length) throw noInk();
  const height = symbolHeight(
    kept.map((label) => boxes[label]),
    pen,
  );
  const isFragment = fragments(
    kept.map((label) => boxes[label]),
    height,
    mask.height,
  );
  kept = kept.filter((_, place) => !isFragment[place]);
  const isFrame = frames(parts, kept, pen);
  kept = kept.filter((_, place) => !isFrame[place]);
  return { boxes: kept.map((label) => boxes[label]), pen };
}

/** Mean height of connected parts, without the pen's and without flat ones. */
export function symbolHeight(boxes, pen) {
  const heights = boxes.map((box) => box.height - pen);
  const least = Math.max(0.1 * largest(heights), 1.5 * pen);
  const tall = heights.filter((height) => height > least);
  if (tall.length) return Math.max(mean(tall), 1);
  return Math.max(largest(boxes.map((box) => box.width)) / 2, 1); // nothing but dots and dashes
}

/** Whether a box lies within `reach` of the area of other ones. */
export function inside(box, others, reach) {
  return (
    box.left >= Math.min(...others.map(({ left }) => left)) - reach &&
    box.top >= Math.min(...others.map(({ top }) => top)) - reach &&
    right(box) <= Math.max(...others.map(right)) + reach &&
    bottom(box) <= Math.max(...others.map(bottom)) + reach
  );
}

const right = ({ left, width }) => left + width;
const bottom = ({ top, height }) => top + height;

/** Parts that the photograph does not cut off. */
function awayFromEdges(parts) {
  const isInner = parts.boxes.map(
    (box) => box.left > 0 && box.top > 0 && right(box) < parts.width && bottom(box) < parts.height,
  );
  isInner[0] = false;
  return maskOf(parts, isInner);
}

/** Return the pixels of one part in its box as a mask. */
function partOf({ labels, width }, label, box) {
  const data = new Uint8Array(box.width * box.height);
  for (let y = 0; y < box.height; y++) {
    for (let x = 0; x < box.width; x++) {
      const at = (box.top + y) * width + box.left + x;
      if (labels[at] === label) data[y * box.width + x] = 1;
    }
  }
  return { data, width: box.width, height: box.height };
}

/** Which parts are no writing but the edge of the sheet: a table, a finger, a border. */
function edgeMasses(parts, kept, pen) {
  const { boxes, width, height } = parts;
  const shares = rimShares(parts);
  return kept.map((label) => {
    const box = boxes[label];
    const isNear =
      box.left < 3 || box.top < 3 || right(box) > width - 3 || bottom(box) > height - 3;
    if (!isNear || box.area < 12 * pen ** 2) return false;
    const isCut = box.left === 0 || box.top === 0 || right(box) === width || bottom(box) === height;
    const contacts = shares.map((share) => share[label]).sort((one, other) => other - one);
    const limit = pen * (contacts[0] > 0.4 ? 1.3 : 2);
    const isThick = penWidth(partOf(parts, label, box)) > limit;
    return (isCut && isThick) || contacts[1] > 0.4;
  });
}

/** For each edge of the image the share of its length where each label comes within 3 pixels. */
function rimShares({ labels, width, height, count }) {
  const depth = { across: Math.min(3, height), down: Math.min(3, width) };
  const share = (length, layers, labelAt) => {
    const counts = new Float64Array(count);
    for (let place = 0; place < length; place++) {
      const met = new Set();
      for (let layer = 0; layer < layers; layer++) met.add(labels[labelAt(place, layer)]);
      for (const label of met) counts[label] += 1 / length;
    }
    return counts;
  };
  return [
    share(width, depth.across, (x, layer) => layer * width + x),
    share(width, depth.across, (x, layer) => (height - 1 - layer) * width + x),
    share(height, depth.down, (y, layer) => y * width + layer),
    share(height, depth.down, (y, layer) => y * width + width - 1 - layer),
  ];
}

/** Which parts are no part of the formula: cut-off writing above or below it, and specks. */
function fragments(boxes, height, imageHeight) {
  const area = boxes.reduce((total, box) => total + box.area, 0);
  // Fragments have little area.
  const usual = boxes.reduce((total, box) => total + box.height * box.area, 0) / area;
  const isCut = (box) =>
    (box.top <= 1 || bottom(box) >= imageHeight - 1) && box.height < 0.7 * usual;
  const isFlat = (box) => box.height < 0.4 * height;
  const body = boxes.filter((box) => !isCut(box) && !isFlat(box));
  if (body.length === boxes.length || !body.length) return boxes.map(() => false);
  const first = Math.min(...body.map(({ top }) => top));
  const last = Math.max(...body.map(bottom));
  const start = Math.min(...body.map(({ left }) => left));
  const end = Math.max(...body.map(right));
  return boxes.map((box) => {
    const isBeyond = bottom(box) <= first + 0.15 * height || box.top >= last - 0.15 * height;
    const isFar =
      bottom(box) < first - 0.6 * height ||
      box.top > last + 0.6 * height ||
      right(box) < start - 4 * height ||
      box.left > end + 4 * height;
    return (isCut(box) && isBeyond) || (isFlat(box) && isFar);
  });
}

/** Which parts are boxes around the others, drawn or formed by a table; a side may lack. */
function frames(parts, kept, pen) {
  const none = kept.map(() => false);
  if (kept.length < 2) return none;
  const boxes = kept.map((label) => parts.boxes[label]);
  const width = Math.max(...boxes.map(right)) - Math.min(...boxes.map(({ left }) => left));
  const height = Math.max(...boxes.map(bottom)) - Math.min(...boxes.map(({ top }) => top));
  const found = boxes.map((box, place) => {
    if (box.width < 0.6 * width || box.height < 0.6 * height) return false;
    const around = boxes.filter((other) => holdsMiddle(box, other)).length;
    if (around / boxes.length < 0.8 || box.width < 8 * pen || box.height < 8 * pen) return false;
    const sides = sideShares(partOf(parts, kept[place], box), Math.trunc(3 * pen) + 1);
    return sides.sort((one, other) => one - other)[1] > 0.8;
  });
  return found.every(Boolean) ? none : found;
}

function holdsMiddle(box, other) {
  const [x, y] = [other.left + other.width / 2, other.top + other.height / 2];
  return x > box.left && x < right(box) && y > box.top && y < bottom(box);
}

/** The share of each side of a part that has ink within `rim` pixels. */
function sideShares({ data, width, height }, rim) {
  const share = (length, depth, placeOf) => {
    let met = 0;
    for (let place = 0; place < length; place++) {
      let inked = false;
      for (let layer = 0; layer < Math.min(rim, depth); layer++) {
        inked ||= data[placeOf(place, layer)] > 0;
      }
      if (inked) met++;
    }
    return met / length;
  };
  return [
    share(width, height, (x, layer) => layer * width + x),
    share(width, height, (x, layer) => (height - 1 - layer) * width + x),
    share(height, width, (y, layer) => y * width + layer),
    share(height, width, (y, layer) => y * width + width - 1 - layer),
  ];
}
