/** Numeric helpers that round and select as NumPy does. */

/** Round half to even, as Python's `round` and OpenCV's `cvRound` do. */
export function rint(value) {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

/** Round to the nearest of 0…255. */
export function toByte(value) {
  return value <= 0 ? 0 : value >= 255 ? 255 : rint(value);
}

/** Return a sorted copy as Float64Array. */
export function sorted(values) {
  return Float64Array.from(values).sort();
}

export function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export function mean(values) {
  return sum(values) / values.length;
}

/** Return the largest value; -Infinity without values. */
export function largest(values) {
  let most = -Infinity;
  for (const value of values) if (value > most) most = value;
  return most;
}

/** Return the smallest value; Infinity without values. */
export function smallest(values) {
  let least = Infinity;
  for (const value of values) if (value < least) least = value;
  return least;
}

/** The median, as `numpy.median`. */
export function median(values) {
  const order = sorted(values);
  const middle = order.length >> 1;
  return order.length % 2 ? order[middle] : (order[middle - 1] + order[middle]) / 2;
}

/** The quantile with linear interpolation, as `numpy.quantile`. */
export function quantile(values, share) {
  const order = sorted(values);
  const place = share * (order.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, order.length - 1);
  return order[low] + (order[high] - order[low]) * (place - low);
}

/** Return the first index whose value is at least `value` in a sorted list. */
export function searchSorted(values, value) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
