/** Splitting an image that holds several formulas, one below the other. */

import { connectedComponents } from "./components.js";
import { boundingBox, crop, pad } from "./filters.js";
import { searchSorted } from "./arrays.js";

export const SYMBOL_HEIGHT = 29.5; // of CROHME's images
export const PEN_WIDTH = 3;
export const MARGINS = { top: 12, left: 12, bottom: 11, right: 11 };

const MIN_LINE_GAP = 0.7 * SYMBOL_HEIGHT; // between two formulas; narrower gaps are rare
const MAX_LIMIT_HEIGHT = 0.9 * SYMBOL_HEIGHT; // of a limit below or above an operator

/** Crop an image to its ink and add CROHME's margins. */
export function addMargins(image) {
  const { left, top, width, height } = boundingBox(image);
  const content = crop(image, left, top, left + width, top + height);
  return pad(content, MARGINS.top, MARGINS.bottom, MARGINS.left, MARGINS.right);
}

/**
 * Return the rows of each formula, from top to bottom: the first and the one after the last.
 *
 * @param image uint8 plane, white ink on black, in the size of CROHME's images
 */
export function findLines(image) {
  const parts = new Parts(image, inkedBands(image));
  for (;;) {
    const nearest = [...parts.gaps.values()].reduce(
      (best, gap) => (best === null || isBefore(gap, best) ? gap : best),
      null,
    );
    if (nearest === null) return [...parts.bands.values()];
    parts.join(nearest);
  }
}

function isBefore(one, other) {
  return one.height < other.height || (one.height === other.height && one.upper < other.upper);
}

function inkedBands({ data, width, height }) {
  const bands = [];
  let start = -1;
  for (let y = 0; y <= height; y++) {
    const inked = y < height && data.subarray(y * width, (y + 1) * width).some(Boolean);
    if (inked && start < 0) start = y;
    if (!inked && start >= 0) {
      bands.push([start, y]);
      start = -1;
    }
  }
  return bands;
}

/** Parts of an image that stand below each other, and are joined step by step. */
class Parts {
  constructor(image, bands) {
    this.bands = new Map(bands.entries()); // the lower of two joined parts vanishes
    this.imageHeight = image.height;
    this.outlines = new Map(bands.map((band, number) => [number, this.#outline(image, band)]));
    this.below = new Map(bands.slice(1).map((_, number) => [number, number + 1]));
    this.above = new Map(bands.slice(1).map((_, number) => [number + 1, number]));
    this.bars = findBars(image).sort((one, other) => one.top - other.top);
    this.barTops = this.bars.map((bar) => bar.top);
    /** The gap below each part that belongs to the same formula as the next one. */
    this.gaps = new Map();
    for (const number of this.bands.keys()) this.#measure(number);
  }

  /** The first and the last row with ink in each column; the image's height and -1 without. */
  #outline({ data, width }, [top, end]) {
    const first = new Int32Array(width).fill(this.imageHeight);
    const last = new Int32Array(width).fill(-1);
    for (let y = top; y < end; y++) {
      for (let x = 0; x < width; x++) {
        if (!data[y * width + x]) continue;
        if (last[x] < 0) first[x] = y;
        last[x] = y;
      }
    }
    return { first, last };
  }

  #measure(upper) {
    const lower = this.below.get(upper);
    if (lower === undefined || !this.#belongTogether(upper, lower)) {
      this.gaps.delete(upper);
    } else {
      const height = this.bands.get(lower)[0] - this.bands.get(upper)[1];
      this.gaps.set(upper, { height, upper, lower });
    }
  }

  join({ upper, lower }) {
    this.bands.get(upper)[1] = this.bands.get(lower)[1];
    const [one, two] = [this.outlines.get(upper), this.outlines.get(lower)];
    for (let x = 0; x < one.first.length; x++) {
      one.first[x] = Math.min(one.first[x], two.first[x]);
      one.last[x] = Math.max(one.last[x], two.last[x]);
    }
    const below = this.below.get(lower);
    for (const known of [this.bands, this.outlines, this.below, this.gaps]) known.delete(lower);
    if (below === undefined) {
      this.below.delete(upper);
    } else {
      this.below.set(upper, below);
      this.above.set(below, upper);
    }
    this.#measure(upper);
    const above = this.above.get(upper);
    if (above !== undefined) this.#measure(above);
  }

  /** Whether two neighbors are parts of one formula. */
  #belongTogether(upper, lower) {
    const rows = [this.bands.get(upper), this.bands.get(lower)];
    const gap = rows[1][0] - rows[0][1];
    if (gap < MIN_LINE_GAP) return true;
    if (this.#facesBar(upper, lower) || this.#facesBar(lower, upper)) return true;
    if (gap >= 2 * MIN_LINE_GAP) return false;
    const heights = rows.map(([top, bottom]) => bottom - top);
    const widths = [upper, lower].map((part) => inkedWidth(this.outlines.get(part)));
    const narrow = widths[1] < widths[0] ? 1 : 0;
    const isFlat = Math.min(...heights) <= 4 * PEN_WIDTH; // a bar, or dots
    const isLimit =
      heights[narrow] <= MAX_LIMIT_HEIGHT && 2 * Math.min(...widths) <= Math.max(...widths);
    return isFlat || isLimit;
  }

  /** Whether only space lies between a part and a bar of the other one that spans it. */
  #facesBar(part, other) {
    const { last: ink } = this.outlines.get(part);
    const inked = new Int32Array(ink.length + 1);
    for (let x = 0; x < ink.length; x++) inked[x + 1] = inked[x] + (ink[x] >= 0 ? 1 : 0);
    const all = inked[ink.length];
    const [from, to] = this.bands.get(other);
    const { first, last } = this.outlines.get(other);
    const isAbove = this.bands.get(part)[0] < from;
    const bars = this.bars.slice(searchSorted(this.barTops, from), searchSorted(this.barTops, to));
    return bars.some(({ left, top, width, height }) => {
      const middle = left + (width >> 1);
      const isHidden = isAbove ? first[middle] < top : last[middle] >= top + height;
      const spans = inked[left + width] - inked[left] > 0.9 * all;
      if (isHidden || !spans) return false;
      const columns = isAbove ? first : last;
      const span = columns.subarray(left, left + width);
      return isAbove ? span.every((row) => row >= top) : span.every((row) => row < top + height);
    });
  }
}

function inkedWidth({ last }) {
  let right = last.length - 1;
  while (last[right] < 0) right--;
  return right - last.findIndex((row) => row >= 0) + 1;
}

/** Wide flat components, such as fraction bars. */
function findBars(image) {
  const { boxes } = connectedComponents(image);
  return boxes
    .slice(1)
    .filter(({ width, height }) => width >= 3 * height && width >= 0.6 * SYMBOL_HEIGHT);
}

/**
 * Return the boxes of the formulas of an image, from top to bottom, in the pixels of an original.
 *
 * @param ink uint8 plane with a margin of 12 pixels, in the size of CROHME's images
 * @param corner `{ left, top }` of the ink in the original, which has the same scale
 */
export function lineBoxes(ink, corner) {
  return findLines(ink).map(([top, bottom]) => {
    const rows = crop(ink, 0, top, ink.width, bottom);
    const { left, width } = boundingBox(rows);
    const x = corner.left + left - MARGINS.left;
    const y = corner.top + top - MARGINS.top;
    return { left: x, top: y, right: x + width, bottom: y + bottom - top };
  });
}
