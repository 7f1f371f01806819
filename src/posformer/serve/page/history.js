// What was read on this visit and before, kept in the browser only.

const KEY = "posformer.history";
const MOST = 30;

export class History {
  #entries = load();

  get entries() { return this.#entries; }

  // The same writing replaces what was read of it before.
  keep(entry) {
    this.#entries = [entry, ...this.#entries.filter(({ id }) => id !== entry.id)].slice(0, MOST);
    save(this.#entries);
  }

  forget() {
    this.#entries = [];
    save(this.#entries);
  }
}

function load() {
  try {
    const entries = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(entries) ? entries.filter(({ latex }) => typeof latex === "string") : [];
  } catch {
    return [];
  }
}

function save(entries) {
  try {
    localStorage.setItem(KEY, JSON.stringify(entries));
  } catch {
    // Private windows keep nothing, and a full store keeps the old.
  }
}
