// Asks the server, and says in words what went wrong.

export class Refused extends Error {}

const RETRIES = 5;

async function ask(address, options) {
  for (let attempt = 0; ; attempt++) {
    let answer;
    try {
      answer = await fetch(address, options);
    } catch {
      throw new Refused("The server does not answer. Is it still running?");
    }
    if (answer.status === 503 && attempt < RETRIES) {
      await pause(Number(answer.headers.get("Retry-After") || 1));
      continue;
    }
    const found = await answer.json().catch(() => null);
    if (answer.ok && found) return found;
    throw new Refused(inWords(answer.status, found?.error));
  }
}

function inWords(status, reason) {
  if (status === 503) return "The server has too much to do. Try again in a moment.";
  if (!reason) return `The server could not do this (${status}).`;
  const text = reason.replace(/^(picture|strokes): /, "");
  return text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
}

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const json = (value) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(value),
});
const query = ({ readings, explain }) => `?top_k=${readings}&explain=${Boolean(explain)}`;

export function readStrokes(strokes, wanted) {
  return ask(`api/strokes${query(wanted)}`, json({ strokes }));
}

export function readPicture(blob, name, wanted) {
  const form = new FormData();
  form.append("file", blob, name);
  return ask(`api/recognize${query(wanted)}`, { method: "POST", body: form });
}

export const describeLatex = (latex) => ask("api/latex", json({ latex }));
export const describeModel = () => ask("api/model");
