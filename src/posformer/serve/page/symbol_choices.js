// Marks doubtful symbols in the formula and offers others in their place.

import { mathElement } from "./mathml.js";

const SURE_FROM = 0.7; // see "Correcting symbols" in docs/serve.md

export class SymbolChoices {
  #formula;
  #box;
  #choose;

  // `choose` is called with a symbol of the answer and the token that the user prefers.
  constructor(formula, box, choose) {
    this.#formula = formula;
    this.#box = box;
    this.#choose = choose;
    document.addEventListener("pointerdown", ({ target }) => {
      if (!box.contains(target)) this.close();
    });
    document.addEventListener("keydown", ({ key }) => { if (key === "Escape") this.close(); });
  }

  // Marks the symbols of an answer in the formula; `chosen` are the tokens by index.
  offer(symbols, chosen) {
    for (const symbol of symbols) {
      const element = this.#formula.querySelector(`[data-index="${symbol.index}"]`);
      const isDoubtful = symbol.confidence < SURE_FROM && !chosen.has(symbol.index);
      if (!element || (!isDoubtful && !symbol.alternatives.length && !chosen.has(symbol.index))) continue;
      element.classList.add("symbol");
      element.classList.toggle("doubtful", isDoubtful);
      element.classList.toggle("chosen", chosen.has(symbol.index));
      const open = () => this.#open(element, symbol, chosen.get(symbol.index) ?? symbol.token);
      element.addEventListener("click", open);
      if (!isDoubtful) continue;
      element.setAttribute("tabindex", "0");
      element.setAttribute("role", "button");
      element.setAttribute("aria-label", `${symbol.token}, unsure: choose another symbol`);
      element.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      });
    }
  }

  close() {
    this.#box.hidden = true;
    this.#formula.querySelector(".open")?.classList.remove("open");
  }

  #open(element, symbol, current) {
    this.close();
    element.classList.add("open");
    const buttons = [symbol, ...symbol.alternatives].map(({ token, confidence }) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = token;
      button.setAttribute("aria-pressed", token === current);
      const share = document.createElement("small");
      share.textContent = `${Math.round(100 * confidence)} %`;
      button.append(mathElement(shownAlone(token), { display: "inline" }), share);
      button.addEventListener("click", () => {
        this.close();
        this.#choose(symbol, token);
      });
      return button;
    });
    this.#box.replaceChildren(...buttons);
    this.#box.hidden = false;
    this.#place(element);
    buttons[0].focus({ preventScroll: true });
  }

  // Below the formula, which stays visible, and as near to the symbol as there is room.
  #place(element) {
    const area = this.#box.offsetParent.getBoundingClientRect();
    const symbol = element.getBoundingClientRect();
    const left = symbol.left + symbol.width / 2 - area.left - this.#box.offsetWidth / 2;
    const last = area.width - this.#box.offsetWidth;
    this.#box.style.left = `${Math.max(0, Math.min(left, last))}px`;
    const { bottom } = this.#formula.querySelector("math").getBoundingClientRect();
    this.#box.style.top = `${Math.min(bottom, area.bottom) - area.top + 6}px`;
  }
}

// An accent or a command is shown with an empty square as its argument.
function shownAlone(token) {
  const math = mathElement([token]);
  return math.textContent ? [token] : [token, "{", "\\square", "}"];
}
