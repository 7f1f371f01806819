/**
 * From a photograph to what the network reads, with gray levels kept: `preprocessing: grey`.
 *
 * `preparePhoto` finds the formula, crops it, brings it to the size of the training images and
 * flattens the light. It never decides pixel by pixel what is ink: the network does.
 */

import { largest, mean, median, quantile, rint, sorted, toByte } from "./arrays.js";
import { connectedComponents, maskOf } from "./components.js";
import { NoInkError } from "./errors.js";
import * as filters from "./filters.js";
import { SYMBOL_HEIGHT, lineBoxes } from "./lines.js";
import { penWidth } from "./pen.js";
import { resizeArea, resizeCubic, resizeLinear } from "./resize.js";
import { eraseRuling } from "./ruling.js";
import { above } from "./sizing.js";
import { findSymbols, inside, symbolHeight } from "./writing.js";

const MARGIN = 12; // pixels around the formula
const LARGEST_IMAGE = 2_000_000; // pixels of the result
const MOST_ENLARGED = 5.0;

const STROKE_REACH = 20; // pixels, wider than any stroke at the working size
const SMALLEST_CONTRAST = 0.02; // of the paper's brightness; less is never ink
const RIM = 8; // pixels at the edges that do not count for the contrast of ink
const FAINT = 0.15; // noise floor relative to the contrast of ink, above which noise is smoothed
const COARSE_PIXELS = 600_000; // at most, where the formula is looked for

const float = Math.fround;
const noInk = () => new NoInkError("image: there is no ink in the image");

/**
 * Bring a photograph into the form of the training images, with gray levels kept.
 *
 * @param image uint8 plane with one channel or three
 * @returns uint8 plane, light ink on black, symbols as tall as in CROHME's images, with a margin of
 *   at least 12 pixels; a rendering of CROHME comes out as it is
 */
export function preparePhoto(image) {
  if (isRendered(image)) return frame(image);
  const formula = findFormula(image);
  return frame(flatten(cropFormula(image, formula), formula.lightInk));
}

/**
 * Cut formulas that stand below each other apart.
 *
 * @param prepared what `preparePhoto` returns
 * @returns planes from top to bottom, with a margin of 12 pixels; the image itself if there is one
 */
export function splitPhoto(prepared) {
  const map = {
    ...prepared,
    data: Float32Array.from(prepared.data, (value) => value / float(255)),
  };
  const mask = eraseRuling(strongParts(map, 1), { map, level: 1 });
  const { left, top, width, height } = filters.boundingBox(mask);
  const content = filters.crop(mask, left, top, left + width, top + height);
  const ink = filters.pad(content, MARGIN, MARGIN, MARGIN, MARGIN);
  const boxes = lineBoxes(ink, { left, top });
  if (boxes.length === 1) return [prepared];
  return boxes.map((box) => {
    const part = filters.crop(prepared, box.left, box.top, box.right, box.bottom);
    return filters.pad(part, MARGIN, MARGIN, MARGIN, MARGIN);
  });
}

/** Whether an image is a rendering like those of CROHME already. */
function isRendered(image) {
  if (image.channels === 3 || image.data.some((value) => value > 0 && value < 255)) return false;
  const ink = above(image, 0);
  const area = ink.data.reduce((one, other) => one + other, 0);
  if (2 * area >= ink.data.length) return false;
  const pen = penWidth(ink);
  return pen >= 2.4 && pen <= 3.6;
}

/** Remove uneven light and stretch the contrast: paper becomes 0, ink 255, gray levels stay. */
function flatten(image, lightInk) {
  const contrast = measureContrast(image, STROKE_REACH, lightInk);
  const levels = findLevels(contrast);
  const { width, height } = image;
  if (!levels) return filters.plane(new Uint8Array(width * height), width, height);
  const gain = float(255 / (levels.full - levels.floor));
  const floor = float(levels.floor);
  const data = Uint8Array.from(contrast.data, (value) =>
    toByte(float(Math.max(float(value - floor), 0) * gain)),
  );
  return filters.plane(data, width, height);
}

/** Share of the paper's light that is missing, float32. */
function measureContrast(image, reach, lightInk) {
  const dark = lightInk ? { ...image, data: image.data.map((value) => 255 - value) } : image;
  const paper = paperUnder(dark, reach);
  const data = Float32Array.from(dark.data, (value, at) => 1 - float(value / paper.data[at]));
  return filters.plane(data, image.width, image.height);
}

/**
 * Brightness of the paper under dark ink.
 *
 * A closing at low resolution removes strokes narrower than `reach`; averaging first and smoothing
 * afterwards keep noise from lifting it.
 */
function paperUnder(image, reach) {
  const { width, height } = image;
  const step = Math.max(1, Math.floor(reach / 5));
  const size = [width, height].map((side) => Math.max(1, rint(side / step)));
  const side = 2 * Math.floor(reach / (2 * step)) + 1;
  const border = side + 1;
  const small = filters.padReflected(resizeArea(image, ...size), border);
  const smooth = filters.boxBlur(filters.close(small, side, side), side);
  const part = filters.crop(smooth, border, border, border + size[0], border + size[1]);
  const large = resizeLinear(part, width, height);
  return { ...large, data: large.data.map((value) => Math.max(value, 4)) };
}

/** Ink is what stands out most from its surroundings, on whichever side. */
function isInkLight(image, reach) {
  const step = Math.max(1, Math.floor((2 * reach) / 5)); // twice as wide as the widest strokes
  const part = subsample(withoutRim(image), step, step);
  // The root evens out noise and keeps reflections on a dark sheet from counting most.
  const small = { ...part, data: Float32Array.from(part.data, Math.sqrt) };
  const around = filters.medianOf25(filters.padReflected(small, 2));
  const cubes = small.data.reduce((total, value, at) => total + (value - around.data[at]) ** 3, 0);
  return cubes > 0;
}

/** All but the edges of an image, where the table may show. */
function withoutRim(image) {
  const { width, height } = image;
  if (Math.min(width, height) <= 8 * RIM) return image;
  return filters.crop(image, RIM, RIM, width - RIM, height - RIM);
}

/** Return every nth row and column. */
function subsample({ data, width, height, channels = 1 }, stepY, stepX) {
  const [columns, rows] = [Math.ceil(width / stepX), Math.ceil(height / stepY)];
  const result = new data.constructor(columns * rows * channels);
  let to = 0;
  for (let y = 0; y < height; y += stepY) {
    for (let x = 0; x < width; x += stepX) {
      const at = (y * width + x) * channels;
      for (let channel = 0; channel < channels; channel++) result[to++] = data[at + channel];
    }
  }
  return filters.plane(result, columns, rows, channels);
}

/** The contrast that becomes black and the one that becomes white; null without ink. */
function findLevels(whole) {
  const contrast = withoutRim(whole);
  const { width, height } = contrast;
  const sample = subsample(
    contrast,
    1 + Math.floor(height / 600),
    1 + Math.floor(width / 600),
  ).data;
  const step = 1 + Math.floor(sample.length / 8000);
  const some = sorted(sample.filter((_, at) => at % step === 0));
  const [low, paper] = [6, 2].map((share) => some[Math.floor(some.length / share)]);
  // Where lines and ink fill half of the image, that difference is none of noise; neighbors tell.
  const noise = Math.max(Math.min(paper - low, 3 * roughness(contrast)), 0.004);
  const least = float(paper + Math.max(4 * noise, SMALLEST_CONTRAST));
  const standingOut = sample.filter((value) => value > least);
  if (standingOut.length < 5) return null;
  // A mean in which strong pixels count most: faint lines and specks may outnumber ink.
  let squares = 0;
  let cubes = 0;
  for (const value of standingOut) {
    squares += value * value;
    cubes += value * value * value;
  }
  const full = cubes / squares;
  return { floor: paper + Math.min(2 * noise, 0.3 * (full - paper)), full };
}

/** The median difference of neighbors in about 20 rows. */
function roughness({ data, width, height }) {
  if (width < 2) return 0;
  const differences = [];
  for (let y = 0; y < height; y += 1 + Math.floor(height / 20)) {
    for (let x = 1; x < width; x++) {
      differences.push(Math.abs(data[y * width + x] - data[y * width + x - 1]));
    }
  }
  return median(differences);
}

/**
 * Find the formula of a photograph.
 *
 * @returns `{ box, symbolHeight, lightInk, weights }`: the box `{ left, top, right, bottom }` in the
 *   photograph, the mean height of symbols there, whether ink is lighter than paper, and the
 *   weights of the channels for the gray image with the most contrast
 */
function findFormula(image) {
  const scale = Math.min(1, Math.sqrt(COARSE_PIXELS / (image.height * image.width)));
  const size = [image.width, image.height].map((side) => rint(side * scale));
  const small = scale < 1 ? resizeArea(image, ...size, 1 / scale, 1 / scale) : image;
  const weights = inkColor(small);
  const gray = grayOf(small, weights);
  // First with a window for strokes of any width, then with one for those that were found.
  const reach = Math.max(STROKE_REACH, Math.max(small.width, small.height) >> 4);
  const lightInk = isInkLight(gray, reach);
  const find = (window) => findSymbols(inkMask(gray, window, lightInk), noInk);
  let { boxes, pen } = find(reach);
  let height = symbolHeight(boxes, pen);
  const closer = Math.max(8, rint(0.7 * height));
  if (closer < reach) {
    const more = find(closer);
    // A narrow window turns the edge of the sheet into a line, far from what was found before.
    const isSmall = (box) => Math.max(box.width, box.height) < 3 * height;
    const isSymbol = more.boxes.map((box) => inside(box, boxes, height) || isSmall(box));
    const symbols = more.boxes.filter((_, at) => isSymbol[at]);
    if (symbols.length) {
      // Of a part that a ruled line runs through, symbols that were found before remain.
      const lines = more.boxes.filter((_, at) => !isSymbol[at]);
      const joined = boxes.filter(
        (box) => isSmall(box) && lines.some((line) => inside(box, [line], 0)),
      );
      height = symbolHeight(symbols, more.pen);
      boxes = [...symbols, ...joined];
    }
  }
  const left = Math.min(...boxes.map((box) => box.left)) / scale;
  const top = Math.min(...boxes.map((box) => box.top)) / scale;
  const right = Math.max(...boxes.map((box) => box.left + box.width)) / scale;
  const bottom = Math.max(...boxes.map((box) => box.top + box.height)) / scale;
  return { box: { left, top, right, bottom }, symbolHeight: height / scale, lightInk, weights };
}

/** Return the mask of what may be ink, without ruled lines. */
function inkMask(gray, reach, lightInk) {
  let map = measureContrast(gray, reach, lightInk);
  let levels = findLevels(map);
  if (levels && levels.floor > FAINT * levels.full) {
    map = filters.gaussianBlur(map, 1.2);
    levels = findLevels(map);
  }
  if (!levels) throw noInk();
  const floor = float(levels.floor);
  const lifted = { ...map, data: map.data.map((value) => Math.max(float(value - floor), 0)) };
  const level = levels.full - levels.floor;
  return eraseRuling(strongParts(lifted, level), { map: lifted, level });
}

/** Parts above 0.4 of the level that reach 0.6 somewhere, as a mask of 0 and 1. */
function strongParts(map, level) {
  const parts = connectedComponents(above(map, float(0.4 * level)));
  const kept = new Uint8Array(parts.count);
  const strong = float(0.6 * level);
  map.data.forEach((value, at) => {
    if (value > strong) kept[parts.labels[at]] = 1;
  });
  kept[0] = 0;
  return maskOf(parts, kept);
}

/** Cut out a formula at the working size, with as much of the margin as the photograph has. */
function cropFormula(image, { box, symbolHeight: height, weights }) {
  const { left, top, right, bottom } = box;
  const area = Math.max((right - left) * (bottom - top), 1);
  const wanted = Math.min(SYMBOL_HEIGHT / Math.max(height, 1), MOST_ENLARGED);
  const scale = Math.min(wanted, Math.sqrt(LARGEST_IMAGE / area));
  const margin = MARGIN / scale;
  const [x, y] = [left, top].map((place) => Math.max(0, rint(place - margin)));
  const [endX, endY] = [right, bottom].map((place) => rint(place + margin) + 1);
  const gray = grayOf(filters.crop(image, x, y, endX, endY), weights);
  const size = [gray.width, gray.height].map((side) => Math.max(1, rint(side * scale)));
  return scale < 1 ? resizeArea(gray, ...size) : resizeCubic(gray, ...size);
}

/** Add the margin where the photograph ends at the formula. */
function frame(flat) {
  const { left, top, width, height } = filters.boundingBox(above(flat, 127));
  if (!width) throw noInk();
  const right = flat.width - left - width;
  const bottom = flat.height - top - height;
  return filters.pad(flat, ...[top, bottom, left, right].map((side) => Math.max(0, MARGIN - side)));
}

/** Weights of the channels: as much as ink takes from each; one for a gray image. */
function inkColor(image) {
  if (image.channels !== 3) return [1];
  const around = filters.boxBlur(image, 41);
  const lost = Float32Array.from(image.data, (value, at) =>
    float(Math.abs(value - around.data[at]) / (around.data[at] + 8)),
  );
  const steps = [image.height, image.width].map((side) => 1 + Math.floor(side / 400));
  const { data } = subsample({ ...image, data: lost }, ...steps);
  const pixels = Array.from({ length: data.length / 3 }, (_, at) =>
    data.subarray(3 * at, 3 * at + 3),
  );
  const strength = pixels.map(largest);
  const least = float(quantile(strength, 0.97));
  const strongest = pixels.filter((_, at) => strength[at] >= least);
  const color = [0, 1, 2].map((channel) => mean(strongest.map((pixel) => pixel[channel])) + 1e-3);
  const total = color[0] + color[1] + color[2];
  return color.map((weight) => weight / total);
}

function grayOf(image, weights) {
  if (image.channels !== 3) return image;
  const { data, width, height } = image;
  const [red, green, blue] = weights.map(float);
  const gray = new Uint8Array(width * height);
  for (let at = 0; at < gray.length; at++) {
    gray[at] = toByte(
      float(data[3 * at] * red + data[3 * at + 1] * green + data[3 * at + 2] * blue),
    );
  }
  return filters.plane(gray, width, height);
}
