// The writing area: records, draws, erases and undoes strokes.

const PEN_WIDTH = 3.2;
const ERASER_RADIUS = 10;

export class Ink extends EventTarget {
  #canvas;
  #strokes = []; // lists of points [x, y, pressure]; replaced, never modified, for undo
  #past = [];
  #future = [];
  #current = null;
  #beforeErasing = null;
  #penSeen = false;

  constructor(canvas) {
    super();
    this.#canvas = canvas;
    this.erasing = false;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"])
      canvas.addEventListener(end, (event) => this.#up(event));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get strokes() { return this.#strokes; }
  get isEmpty() { return this.#strokes.length === 0; }
  get isWriting() { return this.#current !== null; }
  get canUndo() { return this.#past.length > 0; }
  get canRedo() { return this.#future.length > 0; }

  undo() { this.#travel(this.#past, this.#future); }
  redo() { this.#travel(this.#future, this.#past); }
  clear() { if (!this.isEmpty) this.replace([]); }

  replace(strokes) {
    this.#past.push(this.#strokes);
    this.#future = [];
    this.#show(strokes);
  }

  #travel(from, to) {
    if (!from.length) return;
    to.push(this.#strokes);
    this.#show(from.pop());
  }

  #show(strokes) {
    this.#strokes = strokes;
    this.draw();
    this.dispatchEvent(new Event("change"));
  }

  #down(event) {
    // Palm rejection: once a pen is in use, ignore touch.
    if (event.pointerType === "pen") this.#penSeen = true;
    if (event.pointerType === "touch" && this.#penSeen) return;
    if (event.button > 0 && event.button !== 5) return;
    if (this.#current) return;
    event.preventDefault();
    this.#canvas.focus({ preventScroll: true });
    this.#canvas.setPointerCapture(event.pointerId);
    const erases = this.erasing || event.button === 5; // the eraser end of a pen
    this.#current = { id: event.pointerId, points: [], erases, zoom: this.#zoom() };
    this.#beforeErasing = erases ? this.#strokes : null;
    this.dispatchEvent(new Event("begin"));
    this.#move(event);
  }

  #move(event) {
    if (this.#current?.id !== event.pointerId) return;
    const steps = event.getCoalescedEvents?.() ?? [];
    const points = (steps.length ? steps : [event]).map((step) => this.#point(step));
    if (this.#current.erases) this.#erase(points);
    else this.#extend(points);
    this.draw();
  }

  #extend(points) {
    for (const point of points) {
      const last = this.#current.points.at(-1);
      if (!last || Math.hypot(point[0] - last[0], point[1] - last[1]) >= 0.8)
        this.#current.points.push(point);
    }
  }

  #erase(points) {
    const touched = (stroke) =>
      points.some((point) => stroke.some((other, index) =>
        distance(point, stroke[Math.max(0, index - 1)], other) < ERASER_RADIUS));
    this.#strokes = this.#strokes.filter((stroke) => !touched(stroke));
  }

  #up(event) {
    if (this.#current?.id !== event.pointerId) return;
    const { points, erases } = this.#current;
    this.#current = null;
    if (!erases) {
      this.replace([...this.#strokes, points]);
      return;
    }
    if (this.#strokes.length < this.#beforeErasing.length) {
      this.#past.push(this.#beforeErasing);
      this.#future = [];
    }
    this.#show(this.#strokes);
  }

  // Below 1 if the area has become too small for the ink, such as after rotating a phone.
  #zoom() {
    const { clientWidth, clientHeight } = this.#canvas;
    let zoom = 1;
    for (const [x, y] of this.#strokes.flat())
      zoom = Math.min(zoom, clientWidth / (x + PEN_WIDTH), clientHeight / (y + PEN_WIDTH));
    return zoom > 0.98 ? 1 : Math.max(zoom, 0.1);
  }

  #point(event) {
    const box = this.#canvas.getBoundingClientRect();
    const zoom = this.#current.zoom;
    const pressure = event.pointerType === "pen" ? event.pressure : 0.5;
    const round = (number) => Math.round(number * 10) / 10;
    const [x, y] = [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom];
    return [round(x), round(y), pressure];
  }

  draw() {
    const { clientWidth, clientHeight } = this.#canvas;
    const zoom = this.#current?.zoom ?? this.#zoom();
    const ratio = devicePixelRatio || 1;
    const width = Math.round(clientWidth * ratio);
    const height = Math.round(clientHeight * ratio);
    if (this.#canvas.width !== width || this.#canvas.height !== height)
      Object.assign(this.#canvas, { width, height });
    const pen = this.#canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.scale(ratio * zoom, ratio * zoom);
    const style = getComputedStyle(this.#canvas).getPropertyValue("color");
    pen.strokeStyle = pen.fillStyle = style;
    pen.lineCap = pen.lineJoin = "round";
    for (const stroke of this.#strokes) drawStroke(pen, stroke);
    if (this.#current && !this.#current.erases) drawStroke(pen, this.#current.points);
  }
}

function drawStroke(pen, points) {
  if (!points.length) return;
  const thickness = (pressure) => PEN_WIDTH * (0.5 + pressure);
  if (points.length === 1) {
    const [x, y, pressure] = points[0];
    pen.beginPath();
    pen.arc(x, y, thickness(pressure) / 1.6, 0, 2 * Math.PI);
    pen.fill();
    return;
  }
  for (let index = 1; index < points.length; index++) {
    const [before, here] = [points[index - 1], points[index]];
    pen.lineWidth = thickness((before[2] + here[2]) / 2);
    pen.beginPath();
    pen.moveTo(before[0], before[1]);
    pen.lineTo(here[0], here[1]);
    pen.stroke();
  }
}

// Distance from a point to a line segment.
function distance([x, y], [fromX, fromY], [toX, toY]) {
  const [acrossX, acrossY] = [toX - fromX, toY - fromY];
  const length = acrossX ** 2 + acrossY ** 2;
  const along = length ? ((x - fromX) * acrossX + (y - fromY) * acrossY) / length : 0;
  const fraction = Math.min(1, Math.max(0, along));
  return Math.hypot(x - fromX - fraction * acrossX, y - fromY - fraction * acrossY);
}
