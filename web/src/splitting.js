/** Splitting ink that holds several formulas. */

import { largest, searchSorted, smallest } from "./arrays.js";
import { MARGINS, PEN_WIDTH, findLines } from "./lines.js";
import { render } from "./render.js";

/**
 * Split strokes where their image would be cut into lines.
 *
 * Formulas are written one after the other, their parts often in any order: there is no cut where
 * a stroke above it was written after one below.
 *
 * @param strokes in pixels, as `strokesInPixels` returns them, in the order of writing
 * @returns the strokes of each formula, from top to bottom
 */
export function splitStrokes(strokes) {
  const lines = lineNumbers(strokes);
  const highestAfter = lines.slice();
  for (let i = lines.length - 2; i >= 0; i--) {
    highestAfter[i] = Math.min(lines[i], highestAfter[i + 1]);
  }
  const formulas = [];
  let lowestBefore = -1;
  strokes.forEach((stroke, index) => {
    if (lowestBefore < highestAfter[index]) formulas.push([]);
    formulas.at(-1).push(stroke);
    lowestBefore = Math.max(lowestBefore, lines[index]);
  });
  return formulas;
}

/** Return for each stroke the number of its line, from top to bottom. */
function lineNumbers(strokes) {
  const lines = findLines(render(strokes));
  const top = smallest(strokes.map(({ y }) => Math.floor(smallest(y))));
  const cuts = lines.slice(1).map(([start], number) => (lines[number][1] + start) / 2);
  return strokes.map(({ y }) => {
    const center = Math.fround(Math.fround(smallest(y) + largest(y)) / 2);
    return searchSorted(cuts, Math.fround(center + MARGINS.top - top + PEN_WIDTH / 2));
  });
}
