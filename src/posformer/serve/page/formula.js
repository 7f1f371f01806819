// The font of formulas, MathML from the server as DOM elements, and formulas as images.

const MATHML = "http://www.w3.org/1998/Math/MathML";
const ELEMENTS = new Set(("math merror mfrac mi mn mo mover mpadded mphantom mmultiscripts mprescripts "
  + "mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none")
  .split(" "));
const ATTRIBUTES = new Set(("accent accentunder columnalign columnspacing depth display displaystyle "
  + "fence form height largeop linethickness lspace mathvariant maxsize minsize movablelimits "
  + "rowspacing rspace scriptlevel separator stretchy symmetric voffset width").split(" "));

// Operators whose limits stand above and below in display style.
const WITH_LIMITS = /^(?:[∏∐∑⋀⋁⋂⋃⨀⨁⨂⨄⨆]|lim|max|min|sup|inf)$/u;
const LIMITS = { msub: "munder", msup: "mover", msubsup: "munderover" };

// Copies allowed elements and attributes only, so that no other markup gets into the page.
export function formula(mathml, display = "block") {
  const parsed = new DOMParser().parseFromString(mathml, "application/xml");
  const math = parsed.querySelector("parsererror") ? null : copy(parsed.documentElement, display === "block");
  const element = math ?? document.createElementNS(MATHML, "math");
  element.setAttribute("display", display);
  if (display === "block") element.setAttribute("displaystyle", "true");
  return element;
}

function copy(node, large) {
  if (!ELEMENTS.has(node.localName)) return null;
  const limits = large && WITH_LIMITS.test(node.firstElementChild?.textContent.trim() ?? "");
  const name = (limits && LIMITS[node.localName]) || node.localName;
  const element = document.createElementNS(MATHML, name);
  for (const attribute of node.attributes)
    if (ATTRIBUTES.has(attribute.name)) element.setAttribute(attribute.name, attribute.value);
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) element.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE) element.append(copy(child, large) ?? "");
  }
  return element;
}

const FONT = "posformer math";
let fontBytes = null;

// Loads STIX Two Math, for browsers without a good font. Images need its bytes, too.
export async function loadFont() {
  fontBytes = new Uint8Array(await (await fetch("math.ttf")).arrayBuffer());
  document.fonts.add(await new FontFace(FONT, fontBytes).load());
}

// Browsers set `math` in a font of the system unless a style says otherwise.
function fontStyle(family) {
  const rule = `math{font-family:${family}}`;
  if (!fontBytes) return `<style>${rule}</style>`;
  let text = "";
  for (let start = 0; start < fontBytes.length; start += 0x8000)
    text += String.fromCharCode(...fontBytes.subarray(start, start + 0x8000));
  const source = `url(data:font/ttf;base64,${btoa(text)})`;
  return `<style>@font-face{font-family:'${FONT}';src:${source}}${rule}</style>`;
}

const IMAGE_SCALE = 3;
const IMAGE_MARGIN = 12;

// Black on white, at three times the screen resolution.
export async function formulaImage(math) {
  const box = math.getBoundingClientRect();
  const width = Math.ceil(box.width) + 2 * IMAGE_MARGIN;
  const height = Math.ceil(box.height) + 2 * IMAGE_MARGIN;
  const { fontSize, fontFamily } = getComputedStyle(math);
  const content = new XMLSerializer().serializeToString(math);
  const family = fontFamily.replaceAll('"', "'");
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">`
    + `${fontStyle(family)}<foreignObject width="100%" height="100%"><div xmlns="http://www.w3.org/1999/xhtml" `
    + `style="margin:${IMAGE_MARGIN}px;font-size:${fontSize};color:#000">`
    + `${content}</div></foreignObject></svg>`;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * IMAGE_SCALE, height * IMAGE_SCALE];
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, failed) =>
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no image"))), "image/png"));
}
