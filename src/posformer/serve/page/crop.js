// A dialog that asks which part of an image is the formula.

const MAX_SIDE = 2400; // longest side that is sent, in pixels; more does not help recognition
const MIN_SIDE = 8;

export class Crop {
  #dialog;
  #canvas;
  #image = null;
  #scale = 1; // screen pixels per image pixel
  #box = null; // in image pixels
  #anchor = null;
  #done = null;

  constructor(dialog) {
    this.#dialog = dialog;
    this.#canvas = dialog.querySelector("canvas");
    this.#canvas.addEventListener("pointerdown", (event) => this.#down(event));
    this.#canvas.addEventListener("pointermove", (event) => this.#move(event));
    this.#canvas.addEventListener("pointerup", () => { this.#anchor = null; });
    this.#canvas.addEventListener("keydown", (event) => this.#key(event));
    const on = (id, action) => dialog.querySelector(id).addEventListener("click", action);
    on("#crop-cancel", () => dialog.close());
    on("#crop-all", () => { this.#box = this.#fullBox(); this.#finish(); });
    on("#crop-read", () => this.#finish());
    dialog.addEventListener("close", () => { this.#done?.(null); this.#done = null; });
  }

  // Resolves to the selected part as PNG, or null if the user cancels.
  async ask(image) {
    this.#image = image;
    this.#box = this.#fullBox();
    this.#dialog.showModal();
    this.#fit();
    this.#dialog.querySelector("#crop-read").focus();
    return new Promise((done) => { this.#done = done; });
  }

  #fullBox() { return { x: 0, y: 0, width: this.#image.width, height: this.#image.height }; }

  #fit() {
    const room = [Math.min(innerWidth * 0.86, 900), innerHeight * 0.55];
    const { width, height } = this.#image;
    this.#scale = Math.min(room[0] / width, room[1] / height, 2);
    this.#canvas.width = Math.max(1, Math.round(width * this.#scale));
    this.#canvas.height = Math.max(1, Math.round(height * this.#scale));
    this.#draw();
  }

  #draw() {
    const pen = this.#canvas.getContext("2d");
    const { width, height } = this.#canvas;
    const { x, y, width: across, height: down } = this.#box;
    const selected = [x, y, across, down].map((number) => number * this.#scale);
    pen.drawImage(this.#image, 0, 0, width, height);
    pen.fillStyle = "#000a";
    pen.beginPath();
    pen.rect(0, 0, width, height);
    pen.rect(...selected);
    pen.fill("evenodd");
    pen.strokeStyle = "#8c9eff";
    pen.lineWidth = 3;
    pen.strokeRect(...selected);
  }

  #at(event) {
    const area = this.#canvas.getBoundingClientRect();
    const within = (number, most) => Math.min(most, Math.max(0, number));
    return {
      x: within((event.clientX - area.left) / area.width, 1) * this.#image.width,
      y: within((event.clientY - area.top) / area.height, 1) * this.#image.height,
    };
  }

  #down(event) {
    this.#canvas.setPointerCapture(event.pointerId);
    this.#anchor = this.#at(event);
  }

  #move(event) {
    if (!this.#anchor) return;
    const here = this.#at(event);
    const [x, y] = [Math.min(here.x, this.#anchor.x), Math.min(here.y, this.#anchor.y)];
    const width = Math.abs(here.x - this.#anchor.x);
    const height = Math.abs(here.y - this.#anchor.y);
    if (width < MIN_SIDE || height < MIN_SIDE) return;
    this.#box = { x, y, width, height };
    this.#draw();
  }

  #key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const distance = Math.max(this.#image.width, this.#image.height) / 50;
    const box = { ...this.#box };
    const [right, down] = step.map((number) => number * distance);
    if (event.shiftKey) {
      box.width = Math.min(Math.max(MIN_SIDE, box.width + right), this.#image.width - box.x);
      box.height = Math.min(Math.max(MIN_SIDE, box.height + down), this.#image.height - box.y);
    } else {
      box.x = Math.min(Math.max(0, box.x + right), this.#image.width - box.width);
      box.y = Math.min(Math.max(0, box.y + down), this.#image.height - box.height);
    }
    this.#box = box;
    this.#draw();
  }

  async #finish() {
    const done = this.#done;
    this.#done = null;
    this.#dialog.close();
    done?.(await cut(this.#image, this.#box));
  }
}

function cut(image, { x, y, width, height }) {
  const scale = Math.min(1, MAX_SIDE / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, x, y, width, height, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
