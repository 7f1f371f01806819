/** A module worker that replays vectors in a browser. */

import { PosformerError, Recognizer } from "../src/index.js";
import { replay } from "./replay.js";

addEventListener("message", async ({ data: { model, vectors, runtime, executionProviders } }) => {
  try {
    const sizes = [];
    const recognizer = await Recognizer.load(model, {
      runtimeUrl: runtime,
      executionProviders,
      onProgress: (loaded, total) => sizes.push([loaded, total]),
    });
    const description = await (await fetch(`${vectors}vectors.json`)).json();
    const arrays = new Uint8Array(await (await fetch(`${vectors}arrays.bin`)).arrayBuffer());
    const report = await replay(recognizer, description, arrays);
    postMessage({ ...report, sizes, isIsolated: globalThis.crossOriginIsolated });
  } catch (error) {
    postMessage({ failure: error instanceof PosformerError ? error.message : String(error.stack) });
  }
});
