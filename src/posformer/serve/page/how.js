// How a formula was recognized: attention maps, and the position forest as trees.

const SVG = "http://www.w3.org/2000/svg";

export function showAttention(container, explanation) {
  container.replaceChildren(...(explanation ?? []).map(attentionFigure));
  if (!explanation) container.append("Write a formula first.");
}

function attentionFigure({ picture, rows, columns, symbols }) {
  const figure = document.createElement("div");
  figure.className = "attention";
  const canvas = document.createElement("canvas");
  const chips = document.createElement("div");
  chips.className = "chips";
  figure.append(canvas, chips);
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  const buttons = symbols.map(({ token, map }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = token;
    const show = () => {
      for (const other of buttons) other.setAttribute("aria-pressed", other === button);
      drawAttention(canvas, image, map, rows, columns);
    };
    button.addEventListener("pointerenter", show);
    button.addEventListener("focus", show);
    return button;
  });
  chips.append(...buttons);
  chips.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) buttons[buttons.indexOf(document.activeElement) + step]?.focus();
  });
  image.decode().then(() => drawAttention(canvas, image, null, rows, columns));
  return figure;
}

function drawAttention(canvas, image, map, rows, columns) {
  const scale = Math.max(1, Math.round(900 / image.width));
  canvas.width = image.width * scale;
  canvas.height = image.height * scale;
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = true;
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (!map) return;
  pen.globalCompositeOperation = "screen";
  pen.filter = `blur(${5 * scale}px)`;
  pen.drawImage(heatmap(map, rows, columns), 0, 0, canvas.width, canvas.height);
  pen.filter = "none";
  pen.globalCompositeOperation = "multiply";
  pen.fillStyle = "#ffb070";
  pen.globalAlpha = 0.25;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.globalAlpha = 1;
  pen.globalCompositeOperation = "source-over";
}

function heatmap(map, rows, columns) {
  const small = document.createElement("canvas");
  [small.width, small.height] = [columns, rows];
  const pen = small.getContext("2d");
  const pixels = pen.createImageData(columns, rows);
  map.forEach((value, cell) => pixels.data.set([255, 90 + value * 0.35, 20, value], 4 * cell));
  pen.putImageData(pixels, 0, 0);
  return small;
}

const LINE = /^([│├└─ ]*)([MLR])(?: {2}(.*))?$/u;
const [CHARACTER, HEIGHT, GAP, LEVEL] = [9.1, 34, 14, 62];

export function showForest(container, trees) {
  const roots = parseTrees(trees);
  if (!roots.length) {
    container.replaceChildren("Write a formula first.");
    return;
  }
  const svg = element("svg", { role: "img", "aria-label": trees });
  let [x, depth] = [2, 0];
  for (const root of roots) {
    measure(root);
    depth = Math.max(depth, drawTree(svg, root, x, 0));
    x += root.span + GAP;
  }
  const [width, height] = [x, depth * LEVEL + HEIGHT + 4];
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` }))
    svg.setAttribute(name, value);
  container.replaceChildren(svg);
}

// Parses the text form of the forest into nodes.
function parseTrees(trees) {
  const roots = [];
  const path = [];
  for (const line of trees.split("\n")) {
    const match = LINE.exec(line);
    if (!match) continue;
    const node = { position: match[2], text: match[3] ?? "", children: [] };
    const depth = match[1].length / 3;
    path.length = depth;
    (depth ? path[depth - 1].children : roots).push(node);
    path.push(node);
  }
  return roots;
}

function measure(node) {
  node.width = Math.max(34, (node.text.length + 2) * CHARACTER + 18);
  node.children.forEach(measure);
  const below = node.children.reduce((sum, child) => sum + child.span + GAP, -GAP);
  node.span = Math.max(node.width, below);
}

function drawTree(svg, node, left, depth) {
  const middle = left + node.span / 2;
  const top = 2 + depth * LEVEL;
  let deepest = depth;
  const below = node.children.reduce((sum, child) => sum + child.span + GAP, -GAP);
  let x = left + (node.span - below) / 2;
  for (const child of node.children) {
    const to = x + child.span / 2;
    const [from, end] = [top + HEIGHT, top + LEVEL];
    const bend = (from + end) / 2;
    svg.append(element("path", {
      class: child.position,
      d: `M${middle} ${from}C${middle} ${bend} ${to} ${bend} ${to} ${end}`,
    }));
    deepest = Math.max(deepest, drawTree(svg, child, x, depth + 1));
    x += child.span + GAP;
  }
  const group = element("g", { class: node.position });
  const start = middle - node.width / 2;
  group.append(element("rect", { x: start, y: top, width: node.width, height: HEIGHT, rx: 9 }));
  const position = element("text", { class: "position", x: start + 9, y: top + 22 });
  position.textContent = node.position;
  const text = element("text", { x: start + 25, y: top + 22 });
  text.textContent = node.text;
  group.append(position, text);
  svg.append(group);
  return deepest;
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
