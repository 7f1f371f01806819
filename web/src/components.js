/** Connected components, as `cv2.connectedComponentsWithStats` with eight neighbors. */

/**
 * Label the connected parts of the pixels that are not zero.
 *
 * @returns `labels` Int32Array with 0 for zero pixels; `count` with the background; `boxes`: for
 *   each label `{ left, top, width, height, area }`, that of the background empty
 */
export function connectedComponents({ data, width, height }) {
  const labels = new Int32Array(data.length);
  const parents = [0];
  const find = (label) => {
    while (parents[label] !== label) {
      parents[label] = parents[parents[label]];
      label = parents[label];
    }
    return label;
  };
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = y * width + x;
      if (!data[at]) continue;
      let label = x > 0 ? labels[at - 1] : 0;
      if (y > 0) {
        const first = x > 0 ? at - width - 1 : at - width;
        const last = x < width - 1 ? at - width + 1 : at - width;
        for (let above = first; above <= last; above++) {
          const other = labels[above];
          if (!other || other === label) continue;
          if (!label) {
            label = other;
          } else {
            const [one, two] = [find(label), find(other)];
            parents[Math.max(one, two)] = Math.min(one, two);
          }
        }
      }
      if (!label) {
        label = parents.length;
        parents.push(label);
      }
      labels[at] = label;
    }
  }
  const { numbers, count } = renumber(parents, find);
  for (let at = 0; at < labels.length; at++) labels[at] = numbers[labels[at]];
  return { labels, count, width, height, boxes: measure(labels, count, width, height) };
}

/** Return final numbers for provisional labels, in the order of their first pixels. */
function renumber(parents, find) {
  const numbers = new Int32Array(parents.length);
  let count = 1;
  for (let label = 1; label < parents.length; label++) {
    const root = find(label);
    numbers[label] = root === label ? count++ : numbers[root];
  }
  return { numbers, count };
}

function measure(labels, count, width, height) {
  const rights = new Int32Array(count).fill(-1);
  const bottoms = new Int32Array(count).fill(-1);
  const lefts = new Int32Array(count).fill(width);
  const tops = new Int32Array(count).fill(height);
  const areas = new Int32Array(count);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at++) {
      const label = labels[at];
      if (!label) continue;
      areas[label]++;
      if (x < lefts[label]) lefts[label] = x;
      if (x > rights[label]) rights[label] = x;
      if (y < tops[label]) tops[label] = y;
      bottoms[label] = y;
    }
  }
  return Array.from({ length: count }, (_, label) => ({
    left: lefts[label],
    top: tops[label],
    width: Math.max(0, rights[label] - lefts[label] + 1),
    height: Math.max(0, bottoms[label] - tops[label] + 1),
    area: areas[label],
  }));
}

/** Return the pixels of the labels that are kept as a mask of 0 and 1. */
export function maskOf({ labels, width, height }, kept) {
  const data = new Uint8Array(labels.length);
  for (let at = 0; at < data.length; at++) data[at] = kept[labels[at]] ? 1 : 0;
  return { data, width, height };
}
