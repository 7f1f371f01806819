/** Cropping images to their ink and resizing them to the resolution of a model. */

import { boundingBox, crop } from "./filters.js";
import { resizeArea, resizeLinear } from "./resize.js";

/** Return `{ data, width, height }` with 1 where a plane exceeds a level. */
export function above({ data, width, height }, level) {
  return { data: Uint8Array.from(data, (value) => (value > level ? 1 : 0)), width, height };
}

/** Crop an image to its ink and a margin, as far as the image reaches; unchanged without ink. */
function cropToInk(image, margin) {
  const { left, top, width, height } = boundingBox(above(image, 127));
  if (!width) return image;
  return crop(image, left - margin, top - margin, left + width + margin, top + height + margin);
}

/** Resize an image: area averaging when it shrinks, linear interpolation when it grows. */
function resample(image, width, height) {
  const shrinks = width * height < image.width * image.height;
  return shrinks ? resizeArea(image, width, height) : resizeLinear(image, width, height);
}

/**
 * Crop an image of CROHME's size to its ink and resize it for a model.
 *
 * @param image uint8 plane, white ink on black
 * @param scale scale of the model's images relative to CROHME's
 * @param margin pixels, before scaling, kept around the ink; null to keep the whole image
 * @param maxPixels a larger result is scaled down to this area
 */
export function atWorkingSize(image, scale, margin, maxPixels) {
  const part = margin === null ? image : cropToInk(image, margin);
  const area = part.width * part.height;
  const factor = scale * Math.min(1, Math.sqrt(maxPixels / (area * scale ** 2)));
  const [width, height] = [part.width, part.height].map((side) =>
    Math.max(1, Math.trunc(side * factor)),
  );
  return resample(part, width, height);
}
