// Recognition on this device: the recognizer runs in a worker, and nothing is sent anywhere.

import { ApiError } from "./api.js";
import { describe } from "./expression.js";
import { isInk, readInk } from "./ink_files.js";

const MODEL = "model/";

export class LocalRecognizer {
  #worker = null;
  #calls = new Map(); // promises of the worker's answers, by number
  #next = 0;
  #loaded = null;

  // Loads the model once; `onProgress` receives the loaded and all bytes.
  load(bytes, onProgress) {
    this.#loaded ??= this.#start(bytes, onProgress).catch((error) => {
      this.#loaded = null;
      throw error;
    });
    return this.#loaded;
  }

  async #start(bytes, onProgress) {
    this.#worker = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => {
      if (data.progress) { onProgress(...data.progress); return; }
      const { done, failed } = this.#calls.get(data.number);
      this.#calls.delete(data.number);
      if (data.error) failed(new ApiError(data.error));
      else done(data.result);
    });
    this.#worker.addEventListener("error", () => {
      for (const { failed } of this.#calls.values())
        failed(new ApiError("The recognizer could not be started in this browser."));
      this.#calls.clear();
    });
    await this.#call("load", new URL(MODEL, document.baseURI).href, bytes);
  }

  #call(name, ...parameters) {
    const number = this.#next++;
    return new Promise((done, failed) => {
      this.#calls.set(number, { done, failed });
      this.#worker.postMessage({ number, name, parameters });
    });
  }

  recognizeStrokes(strokes, { topK }) {
    const points = strokes.map((stroke) => stroke.map(([x, y]) => [x, y]));
    return this.#timed("recognizeStrokes", points, { topK, symbols: true });
  }

  async recognizeImage(blob, name, options) {
    if (isInk(name)) return this.recognizeStrokes(await readInk(blob, name), options);
    const bitmap = await createImageBitmap(blob).catch(() => {
      throw new ApiError("This file is no image that the browser can read.");
    });
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.drawImage(bitmap, 0, 0);
    const { data, width, height } = pen.getImageData(0, 0, bitmap.width, bitmap.height);
    return this.#timed("recognizeImage", { data, width, height }, { topK: options.topK, symbols: true });
  }

  async #timed(name, ...parameters) {
    const start = performance.now();
    const answer = await this.#call(name, ...parameters);
    return { ...answer, milliseconds: performance.now() - start };
  }

  describeLatex(latex, format) { return Promise.resolve(describe(latex, format)); }

  async describeModel() {
    const text = await (await fetch(new URL(`${MODEL}vocabulary.txt`, document.baseURI))).text();
    return { words: text.split("\n").filter(Boolean) };
  }
}
