// Recognition on the server: calls the API and turns failures into messages for the user.

export class ApiError extends Error {}

const RETRIES = 5;

async function call(address, options) {
  for (let attempt = 0; ; attempt++) {
    let response;
    try {
      response = await fetch(address, options);
    } catch {
      throw new ApiError("The server does not respond. Is it still running?");
    }
    if (response.status === 503 && attempt < RETRIES) {
      await pause(Number(response.headers.get("Retry-After") || 1));
      continue;
    }
    const result = await response.json().catch(() => null);
    if (response.ok && result) return result;
    throw new ApiError(message(response.status, result?.error));
  }
}

function message(status, reason) {
  if (status === 503) return "The server is busy. Try again in a moment.";
  if (!reason) return `The server failed (status ${status}).`;
  const text = reason.replace(/^(image|strokes): /, "");
  return text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");
}

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const json = (value) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(value),
});
const query = ({ topK, explain }) => `?top_k=${topK}&explain=${Boolean(explain)}&symbols=true`;

export const server = {
  recognizeStrokes(strokes, options) {
    return call(`api/strokes${query(options)}`, json({ strokes }));
  },
  recognizeImage(blob, name, options) {
    const form = new FormData();
    form.append("file", blob, name);
    return call(`api/recognize${query(options)}`, { method: "POST", body: form });
  },
  describeLatex: (latex, format = null) => call("api/latex", json({ latex, format })),
  describeModel: () => call("api/model"),
};
