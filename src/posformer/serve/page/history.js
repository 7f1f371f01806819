// Recent results, stored in the browser only.

const KEY = "posformer.history";
const MAX_ENTRIES = 30;

export class History {
  #entries = load();

  get entries() { return this.#entries; }

  // An entry replaces an earlier one with the same id.
  add(entry) {
    this.#entries = [entry, ...this.#entries.filter(({ id }) => id !== entry.id)].slice(0, MAX_ENTRIES);
    save(this.#entries);
  }

  clear() {
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
    // Private windows store nothing, and storage may be full.
  }
}
