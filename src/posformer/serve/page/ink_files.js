// Strokes of InkML, Xournal++, SVG and Excalidraw files, for recognition on this device.

import { ApiError } from "./api.js";

const MAX_BYTES = 16 * 2 ** 20;
const MAX_UNPACKED_BYTES = 64 * 2 ** 20;
const MAX_POINTS = 50_000;
const MAX_STROKES = 1_000;
const SVG_SHAPES = new Set(["path", "line", "polyline", "polygon", "circle", "ellipse"]);
const SVG_GROUPS = new Set(["svg", "g", "a", "switch"]);
const SVG_GEOMETRY = ["d", "points", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "transform"];
const SVG_STEPS = 150; // points per shape at most

export const isInk = (name) => /\.(inkml|xopp|xoj|svgz?|excalidraw)$/i.test(name);

// Returns strokes as lists of points; throws an ApiError for a file that has none.
export async function readInk(blob, name) {
  const text = await unpacked(blob, name);
  const strokes = (/^\s*\{/.test(text) ? excalidraw(text, name) : xmlStrokes(text, name))
    .filter((stroke) => stroke.length);
  if (!strokes.length) throw new ApiError(`${name}: there is no ink.`);
  if (strokes.length > MAX_STROKES) throw new ApiError(`${name}: there are more than ${MAX_STROKES} strokes.`);
  if (strokes.flat().length > MAX_POINTS) throw new ApiError(`${name}: there are more than ${MAX_POINTS} points.`);
  if (!strokes.flat().flat().every(Number.isFinite)) throw new ApiError(`${name}: a coordinate is not a number.`);
  return strokes;
}

async function unpacked(blob, name) {
  if (blob.size > MAX_BYTES) throw new ApiError(`${name}: longer than ${MAX_BYTES} bytes.`);
  const head = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  if (head[0] !== 0x1f || head[1] !== 0x8b) return blob.text();
  const parts = [];
  let size = 0;
  try {
    const reader = blob.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MAX_UNPACKED_BYTES) { await reader.cancel(); break; }
      parts.push(value);
    }
  } catch {
    throw new ApiError(`${name}: damaged gzip file.`);
  }
  if (size > MAX_UNPACKED_BYTES)
    throw new ApiError(`${name}: longer than ${MAX_UNPACKED_BYTES} bytes when unpacked.`);
  return new Blob(parts).text();
}

function xmlStrokes(text, name) {
  if (/<!(DOCTYPE|ENTITY)/i.test(text)) throw new ApiError(`${name}: document types and entities are refused.`);
  const parsed = new DOMParser().parseFromString(text, "application/xml");
  if (parsed.querySelector("parsererror")) throw new ApiError(`${name}: not XML.`);
  const root = parsed.documentElement;
  const reader = { ink: inkml, xournal: xournalpp, svg }[root.localName];
  if (!reader) throw new ApiError(`${name}: <${root.localName}> is none of InkML, Xournal++ and SVG.`);
  return reader(root);
}

const numbers = (text) => text.trim().split(/[\s,]+/).filter(Boolean).map(Number);
const pairs = (values) =>
  Array.from({ length: values.length >> 1 }, (_, place) => [values[2 * place], values[2 * place + 1]]);
const named = (root, name) => [...root.getElementsByTagNameNS("*", name)];

function inkml(root) {
  const channels = named(root, "channel").map((one) => (one.getAttribute("name") ?? "").toUpperCase());
  const [x, y] = channels.length ? [channels.indexOf("X"), channels.indexOf("Y")] : [0, 1];
  return named(root, "trace").map((trace) => trace.textContent.split(",").filter((one) => one.trim())
    .map((point) => numbers(point)).map((values) => [values[x], values[y]]));
}

const xournalpp = (root) => named(root, "stroke")
  .filter((stroke) => (stroke.getAttribute("tool") ?? "pen") === "pen")
  .map((stroke) => pairs(numbers(stroke.textContent)));

function excalidraw(text, name) {
  let elements;
  try {
    ({ elements } = JSON.parse(text));
  } catch {
    throw new ApiError(`${name}: not JSON.`);
  }
  if (!Array.isArray(elements)) throw new ApiError(`${name}: not an Excalidraw drawing.`);
  const lines = elements.filter((one) => ["freedraw", "line"].includes(one?.type) && !one.isDeleted);
  return lines.map(({ points, x, y, angle }) => {
    if (!Array.isArray(points)) throw new ApiError(`${name}: a line has no points.`);
    return turned(points.map((point) => [Number(point?.[0]) + Number(x), Number(point?.[1]) + Number(y)]), angle);
  });
}

// Drawings turn about their middle.
function turned(points, angle) {
  if (!angle) return points;
  const middle = (axis) => {
    const values = points.map((point) => point[axis]);
    return (Math.min(...values) + Math.max(...values)) / 2;
  };
  const [left, top] = [middle(0), middle(1)];
  const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
  return points.map(([x, y]) => [
    cosine * (x - left) - sine * (y - top) + left, sine * (x - left) + cosine * (y - top) + top,
  ]);
}

// The browser measures the shapes, of which a copy with nothing but geometry is in the page.
function svg(root) {
  const canvas = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  canvas.setAttribute("class", "measured");
  canvas.append(...shapes(root, {}));
  document.body.append(canvas);
  try {
    return [...canvas.querySelectorAll([...SVG_SHAPES].join())].flatMap(sampled);
  } finally {
    canvas.remove();
  }
}

function shapes(element, outer) {
  const style = { ...outer };
  for (const name of ["stroke", "fill", "visibility", "display"]) {
    const declared = new RegExp(`(?:^|;)\\s*${name}\\s*:\\s*([^;]+)`).exec(element.getAttribute("style") ?? "");
    const value = declared?.[1].trim() ?? element.getAttribute(name);
    if (value) style[name] = value.toLowerCase();
  }
  if (style.display === "none") return [];
  const isShape = SVG_SHAPES.has(element.localName);
  if (!isShape && !SVG_GROUPS.has(element.localName)) return [];
  if (isShape && isInvisible(style)) return [];
  const name = isShape ? element.localName : "g";
  const copy = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const attribute of SVG_GEOMETRY)
    if (element.hasAttribute(attribute)) copy.setAttribute(attribute, element.getAttribute(attribute));
  if (!isShape) copy.append(...[...element.children].flatMap((child) => shapes(child, style)));
  return [copy];
}

function isInvisible({ stroke = "none", fill = "black", visibility = "visible" }) {
  const noPaint = ["none", "transparent"];
  if (visibility !== "visible") return true;
  return noPaint.includes(stroke) && [...noPaint, "white", "#fff", "#ffffff"].includes(fill);
}

function sampled(shape) {
  const length = shape.getTotalLength();
  const matrix = shape.getCTM();
  const step = length / SVG_STEPS;
  const strokes = [];
  let last = null;
  for (let place = 0; place <= SVG_STEPS; place++) {
    const point = shape.getPointAtLength(place * step);
    // The length leaves out the moves of the pen between the parts of a path.
    if (!last || Math.hypot(point.x - last.x, point.y - last.y) > 1.5 * step + 1e-6) strokes.push([]);
    last = point;
    const { x, y } = point.matrixTransform(matrix);
    strokes.at(-1).push([x, y]);
  }
  return length ? strokes : strokes.slice(0, 1).map(([point]) => [point]);
}
