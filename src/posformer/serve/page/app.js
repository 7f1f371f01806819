// The page: has ink and images recognized, on the server or on this device, and shows the results.

import { server } from "./api.js";
import { Corrections } from "./corrections.js";
import { Crop } from "./crop.js";
import { convert, FORMATS, tokenize } from "./expression.js";
import { formula, formulaImage, loadFont } from "./formula.js";
import { History } from "./history.js";
import { showForest, showAttention } from "./how.js";
import { Ink } from "./ink.js";
import { isInk } from "./ink_files.js";
import { LocalRecognizer } from "./local.js";
import { mathElement } from "./mathml.js";
import { SymbolChoices } from "./symbol_choices.js";

const TOP_K = 5;
const SURE_FROM = 0.8; // confidence below which a result is called likely
const PAUSE_AFTER_STROKE = 350; // milliseconds
const PAUSE_AFTER_KEY = 250;

const at = (id) => document.getElementById(id);
const ink = new Ink(at("ink"));
const crop = new Crop(at("crop"));
const history = new History();
const corrections = new Corrections();
const choices = new SymbolChoices(at("formula"), at("choices"), chooseSymbol);
const app = await (await fetch("app.json")).json();
const local = new LocalRecognizer();
let recognizer = server;

// The input: an image with its file name, or null for the ink.
let image = null;
let inputId = crypto.randomUUID?.() ?? String(Math.random());
let shown = { latex: "", mathml: "" };
let answered = null; // the last answer, if its symbols can be chosen

// Recognition: one request at a time; later changes are sent when it has returned.

const PAUSE_BEFORE_ALTERNATIVES = 600; // milliseconds, on this device

let timer = 0;
let refining = 0;
let waiting = false;
let busy = false;
let changed = false;

function recognizeSoon(milliseconds = PAUSE_AFTER_STROKE) {
  clearTimeout(timer);
  clearTimeout(refining);
  timer = setTimeout(recognizeNow, milliseconds);
  waiting = true;
  at("formula").ariaBusy = true;
}

async function recognizeNow() {
  waiting = false;
  if (busy) { changed = true; return; }
  changed = false;
  if (!image && ink.isEmpty) { showNothing(); return; }
  busy = true;
  const used = recognizer;
  clearTimeout(timer);
  at("formula").ariaBusy = true;
  const requested = inputId;
  at("state").textContent = "Recognizing…";
  at("formula").classList.add("stale");
  try {
    if (used === local) await local.load(app.bytes, () => {});
    // On this device the best result comes first; the search for others takes longer.
    const options = { topK: used === local ? 1 : TOP_K, explain: used === server && at("how").open };
    const answer = image
      ? await used.recognizeImage(image.blob, image.name, options)
      : await used.recognizeStrokes(ink.strokes, options);
    if (requested !== inputId || (!image && ink.isEmpty)) return;
    await showAnswer(answer);
    if (used === local && !changed) refining = setTimeout(findAlternatives, PAUSE_BEFORE_ALTERNATIVES);
  } catch (error) {
    if (requested === inputId) showProblem(error.message);
  } finally {
    busy = false;
    at("formula").classList.remove("stale");
    if (changed) recognizeSoon(0);
    else at("formula").ariaBusy = waiting;
  }
}

async function findAlternatives() {
  const [requested, strokes] = [inputId, ink.strokes];
  const options = { topK: TOP_K };
  const answer = await (image
    ? local.recognizeImage(image.blob, image.name, options)
    : local.recognizeStrokes(strokes, options)).catch(() => null);
  const isCurrent = requested === inputId && strokes === ink.strokes && recognizer === local;
  if (!answer || !isCurrent || busy || waiting || answer.latex !== at("formula").dataset.recognized) return;
  showAlternatives([{ ...answer, latex: shown.latex }, ...answer.alternatives]);
}

function newInput() {
  corrections.clear();
  inputId = crypto.randomUUID?.() ?? String(Math.random());
}

// Results

async function showAnswer(answer) {
  showProblem(null);
  showConfidence(answer);
  at("state").textContent = answer.unsure
    ? "Check it, or choose an alternative."
    : `Recognized in ${Math.round(answer.milliseconds)} ms`;
  at("formula").dataset.recognized = answer.latex;
  showCorrected(answer);
  showAlternatives([{ ...answer, latex: shown.latex }, ...answer.alternatives]);
  addToHistory();
  if (at("how").open) {
    showAttention(at("attention"), answer.explanation);
    showForest(at("forest"), (await recognizer.describeLatex(shown.latex)).trees);
  }
}

// Shows an answer with the symbols that the user has chosen.
function showCorrected(answer) {
  if (!answer.symbols) { showFormula(answer.latex, answer.mathml); return; }
  const { tokens, chosen } = corrections.apply(answer);
  const element = mathElement(tokens, { indexed: true });
  const mathml = chosen.size || !answer.mathml ? convert(tokens, "mathml") : answer.mathml;
  showFormula(convert(tokens, "latex"), mathml, { element });
  answered = answer;
  choices.offer(answer.symbols, chosen);
}

function chooseSymbol(symbol, token) {
  corrections.choose(answered, symbol.index, token);
  showCorrected(answered);
  addToHistory();
}

function showConfidence({ confidence, unsure }) {
  const mark = at("confidence");
  mark.hidden = false;
  mark.classList.toggle("unsure", unsure);
  const label = unsure ? "Unsure" : confidence < SURE_FROM ? "Likely" : "Sure";
  mark.textContent = `${label}, ${Math.round(100 * confidence)} %`;
}

function showFormula(latex, mathml, { typed = false, element = null } = {}) {
  shown = { latex, mathml };
  answered = null;
  choices.close();
  if (!typed) at("latex").value = latex;
  at("formula").replaceChildren(...(latex ? [element ?? formula(mathml)] : []));
  at("formula").classList.toggle("empty", !latex);
  enableCopying();
}

function enableCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    const isKnown = recognizer === server || FORMATS.includes(button.dataset.copy) || button.dataset.copy === "png";
    button.disabled = !shown.latex || !isKnown;
    button.title = isKnown ? "" : "Needs the server";
  }
}

function showAlternatives(hypotheses) {
  const box = at("alternatives");
  const buttons = hypotheses.map(({ latex, confidence }, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = latex;
    button.setAttribute("aria-pressed", index === 0);
    button.addEventListener("click", () => choose(latex, button));
    const share = document.createElement("small");
    share.textContent = `${Math.round(100 * confidence)} %`;
    button.append(mathElement(tokenize(latex), { display: "inline" }), share);
    return button;
  });
  box.replaceChildren(...buttons);
  at("alternatives-box").hidden = hypotheses.length < 2;
}

async function choose(latex, button) {
  for (const other of at("alternatives").children)
    other.setAttribute("aria-pressed", other === button);
  await typeset(latex, { typed: false });
  addToHistory();
}

async function typeset(latex, { typed }) {
  try {
    const found = await recognizer.describeLatex(latex);
    if (typed && at("latex").value !== latex) return;
    showFormula(latex, found.mathml, { typed });
    showProblem(latex.trim() ? found.problem : null);
    if (at("how").open) showForest(at("forest"), found.trees);
  } catch (error) {
    showProblem(error.message);
  }
}

function showProblem(text) {
  at("problem").textContent = text ?? "";
  at("problem").hidden = !text;
  if (text) at("state").textContent = "";
}

function showNothing() {
  at("formula").ariaBusy = false;
  showProblem(null);
  showFormula("", "");
  at("confidence").hidden = true;
  at("alternatives-box").hidden = true;
  at("state").textContent = "";
  showAttention(at("attention"), null);
  showForest(at("forest"), "");
}

function toast(text) {
  const element = at("toast");
  element.textContent = text;
  element.classList.add("up");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => element.classList.remove("up"), 1800);
}

// Ink and its tools

function showTools() {
  at("undo").disabled = !ink.canUndo;
  at("redo").disabled = !ink.canRedo;
  at("clear").disabled = ink.isEmpty && !image;
  at("hint").hidden = !ink.isEmpty || ink.isWriting;
}

ink.addEventListener("begin", () => { clearTimeout(timer); at("hint").hidden = true; });
ink.addEventListener("change", () => {
  if (ink.isEmpty) newInput();
  showTools();
  recognizeSoon(ink.isEmpty ? 0 : PAUSE_AFTER_STROKE);
});

function selectTool(erasing) {
  ink.erasing = erasing;
  at("ink").classList.toggle("erasing", erasing);
  at("pen").setAttribute("aria-pressed", !erasing);
  at("eraser").setAttribute("aria-pressed", erasing);
}

function clear() {
  if (image) removeImage();
  else ink.clear();
}

at("pen").addEventListener("click", () => selectTool(false));
at("eraser").addEventListener("click", () => selectTool(true));
at("undo").addEventListener("click", () => ink.undo());
at("redo").addEventListener("click", () => ink.redo());
at("clear").addEventListener("click", clear);

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("textarea, dialog");
  if (typing) return;
  const key = event.key.toLowerCase();
  const control = event.ctrlKey || event.metaKey;
  const actions = control
    ? { z: () => (event.shiftKey ? ink.redo() : ink.undo()), y: () => ink.redo(), backspace: clear }
    : { p: () => selectTool(false), e: () => selectTool(true) };
  if (!actions[key] || event.altKey) return;
  event.preventDefault();
  actions[key]();
});

// Images

async function open(file) {
  if (!file) return;
  let bitmap = null;
  try {
    if (!isInk(file.name)) bitmap = await createImageBitmap(file);
  } catch {
    // PDF, and formats that only the server may support.
  }
  const blob = bitmap ? await crop.ask(bitmap) : file;
  if (!blob) return;
  newInput();
  image = { blob, name: file.name || "image" };
  URL.revokeObjectURL(at("image").src);
  at("image").src = URL.createObjectURL(blob);
  at("image").hidden = !bitmap;
  at("file-name").textContent = bitmap ? "" : image.name;
  at("shown").hidden = false;
  showTools();
  showFormula("", "");
  at("alternatives-box").hidden = true;
  at("confidence").hidden = true;
  recognizeNow();
}

function removeImage() {
  image = null;
  newInput();
  at("shown").hidden = true;
  showTools();
  showNothing();
  if (!ink.isEmpty) recognizeSoon(0);
}

at("remove").addEventListener("click", removeImage);
at("choose").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", () => { open(at("file").files[0]); at("file").value = ""; });

document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files][0];
  if (file) { event.preventDefault(); open(file); }
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  at("surface").classList.add("target");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) at("surface").classList.remove("target");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  at("surface").classList.remove("target");
  open([...event.dataTransfer.files][0]);
});

// LaTeX and the clipboard

at("latex").addEventListener("input", () => {
  clearTimeout(typeset.timer);
  const latex = at("latex").value;
  typeset.timer = setTimeout(() => typeset(latex, { typed: true }), PAUSE_AFTER_KEY);
});

const isBlock = () => shown.latex.startsWith("\\begin");
const texts = {
  latex: () => shown.latex,
  mathml: () => shown.mathml,
  markdown: () => (isBlock() ? `$$${shown.latex}$$` : `$${shown.latex}$`),
};
const names = {
  latex: "LaTeX", mathml: "MathML", markdown: "Markdown", png: "Image",
  typst: "Typst", asciimath: "AsciiMath", sympy: "SymPy", unicode: "Unicode text",
};

async function copy(kind) {
  try {
    if (kind === "png") {
      const blob = formulaImage(at("formula").querySelector("math"));
      await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
    } else if (texts[kind]) {
      await copyText(texts[kind]());
    } else {
      const { text, problem } = await recognizer.describeLatex(shown.latex, kind);
      if (text === null) { showProblem(problem); return; }
      await copyText(text);
    }
    toast(`${names[kind]} copied`);
  } catch {
    toast(`This browser does not allow copying the ${names[kind]}`);
  }
}

// Pages without HTTPS, such as on a local network, have no clipboard API.
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("not copied");
}

for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", () => copy(button.dataset.copy));

// How it was recognized

at("how").addEventListener("toggle", () => {
  if (!at("how").open) return;
  if (image || !ink.isEmpty) recognizeNow();
  else { showAttention(at("attention"), null); showForest(at("forest"), ""); }
});

async function showSymbols() {
  try {
    const { words: tokens } = await recognizer.describeModel();
    at("vocabulary").replaceChildren(...tokens.map((token) => {
      const item = document.createElement("li");
      item.textContent = token;
      return item;
    }));
    at("symbols").showModal();
  } catch (error) {
    showProblem(error.message);
  }
}

at("show-symbols").addEventListener("click", showSymbols);
at("symbols-close").addEventListener("click", () => at("symbols").close());

// History

function addToHistory() {
  if (!shown.latex) return;
  const strokes = image ? null : ink.strokes;
  history.add({ id: inputId, ...shown, strokes });
  showHistory();
}

function showHistory() {
  at("history-box").hidden = history.entries.length === 0;
  at("history").replaceChildren(...history.entries.map((entry) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.title = entry.latex;
    button.append(formula(entry.mathml, "inline"));
    button.addEventListener("click", () => recall(entry));
    item.append(button);
    return item;
  }));
}

function recall({ id, latex, mathml, strokes }) {
  if (image) removeImage();
  if (strokes) ink.replace(strokes);
  else ink.clear();
  clearTimeout(timer);
  at("formula").ariaBusy = false;
  inputId = id;
  showProblem(null);
  at("confidence").hidden = true;
  at("alternatives-box").hidden = true;
  at("state").textContent = "";
  showFormula(latex, mathml);
  at("formula").scrollIntoView({ block: "nearest" });
}

at("clear-history").addEventListener("click", () => { history.clear(); showHistory(); });

// Light and dark theme

const THEME = "posformer.theme";

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  ink.draw();
}

at("theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme
      && matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = isDark ? "light" : "dark";
  try { localStorage.setItem(THEME, theme); } catch { /* applies to this visit only */ }
  applyTheme(theme);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme());

let known = null;
try { known = localStorage.getItem(THEME); } catch { /* private windows store nothing */ }
applyTheme(known);
showTools();
showHistory();

// On the server or on this device

const MODE = "posformer.mode";

async function useLocal() {
  if (!app.local) return;
  recognizer = local;
  showMode();
  at("loading").hidden = false;
  try {
    await local.load(app.bytes, (loaded, total) => { at("progress").value = Math.min(1, loaded / total); });
  } catch (error) {
    showProblem(error.message);
    if (app.server) useServer();
    return;
  } finally {
    at("loading").hidden = true;
  }
  document.documentElement.dataset.ready = "local";
}

function useServer() {
  recognizer = server;
  showMode();
}

function showMode() {
  const isLocal = recognizer === local;
  at("mode").hidden = !app.server || !app.local;
  at("mode").setAttribute("aria-checked", isLocal);
  at("how").hidden = isLocal;
  at("api").hidden = !app.server;
  enableCopying();
}

at("mode").addEventListener("click", async () => {
  const toLocal = recognizer === server;
  try { localStorage.setItem(MODE, toLocal ? "local" : "server"); } catch { /* for this visit */ }
  if (toLocal) await useLocal();
  else useServer();
  if (image || !ink.isEmpty) recognizeSoon(0);
});

// The static page works offline after the first visit. Its worker is in charge before the model
// is loaded, so that the model is cached.
async function keepOffline() {
  if (app.server || !navigator.serviceWorker) return;
  try {
    await navigator.serviceWorker.register("sw.js");
    await navigator.serviceWorker.ready;
    if (!navigator.serviceWorker.controller)
      await new Promise((done) => navigator.serviceWorker.addEventListener("controllerchange", done, { once: true }));
  } catch {
    // Without HTTPS there is no service worker: the page works, but not offline.
  }
}

await keepOffline();
const font = loadFont().catch(() => {}); // without it, formulas are set in a font of the system

let mode = null;
try { mode = localStorage.getItem(MODE); } catch { /* private windows store nothing */ }
showMode();
if (!app.server || mode === "local") await useLocal();
await font;
document.documentElement.dataset.ready ??= "server";
