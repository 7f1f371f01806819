/** Measuring the width of strokes. */

import { sum } from "./arrays.js";
import { erode, pad } from "./filters.js";

/** Return the typical stroke width of a mask of 0 and 1: twice the area over the outline. */
export function penWidth(ink) {
  const padded = pad(ink, 1, 1, 1, 1);
  const area = sum(padded.data);
  if (!area) return 0;
  const outline = area - sum(erode(padded, 3).data);
  if (outline < area) return (2 * area) / outline;
  // Strokes of one or two pixels are all outline. Only the wider ones contain 2 x 2 squares.
  return sum(erode(padded, 2).data) > 0.3 * area ? 2 : 1;
}
