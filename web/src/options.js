/** Options of the search: those of `DecodingOptions` in Python, in camel case. */

import { ConfigError } from "./errors.js";

/** Image sizes of multi-scale decoding, in the order of use. */
export const SCALE_FACTORS = [1.0, 1.1, 0.9];
const MIN_FINISHED = 3;

const DEFAULTS = Object.freeze({
  beam: 3,
  scales: 2,
  adaptive: true,
  greedy: false,
  topK: 1,
  directions: "both",
  rescore: true,
  constrained: true,
  maxLength: 200,
  lengthPower: 1.0,
  finished: null,
  stopping: "likely",
  languageWeight: null,
});

/** Return the defaults with some fields changed; raise a ConfigError for invalid ones. */
export function decodingOptions(changes = {}) {
  for (const name of Object.keys(changes)) {
    if (!Object.hasOwn(DEFAULTS, name)) {
      const known = Object.keys(DEFAULTS).join(", ");
      throw new ConfigError(`unknown option ${name}; the options are ${known}`);
    }
  }
  const given = Object.entries(changes).filter(([, value]) => value !== undefined);
  const options = { ...DEFAULTS, ...Object.fromEntries(given) };
  check(options);
  return options;
}

function check(options) {
  for (const name of ["beam", "scales", "topK", "maxLength", "finished"]) {
    const value = options[name];
    if (name === "finished" && value === null) continue;
    if (!Number.isInteger(value) || value < 1) {
      throw new ConfigError(`${name} must be an integer of at least 1, not ${value}`);
    }
  }
  const { scales, greedy, topK, lengthPower, languageWeight, directions, stopping } = options;
  if (scales > SCALE_FACTORS.length) {
    throw new ConfigError(`scales must be at most ${SCALE_FACTORS.length}, not ${scales}`);
  }
  if (greedy && topK > 1) {
    throw new ConfigError(`greedy decoding has one result: topK must be 1, not ${topK}`);
  }
  if (!(lengthPower >= 0)) {
    throw new ConfigError(`lengthPower must be at least 0, not ${lengthPower}`);
  }
  if (languageWeight !== null && !(languageWeight >= 0)) {
    throw new ConfigError(`languageWeight must be at least 0, not ${languageWeight}`);
  }
  if (!["both", "forward"].includes(directions)) {
    throw new ConfigError(`directions must be 'both' or 'forward', not '${directions}'`);
  }
  if (!["likely", "certain"].includes(stopping)) {
    throw new ConfigError(`stopping must be 'likely' or 'certain', not '${stopping}'`);
  }
}

/** Return the options with every dependent value filled in. */
export function resolveOptions(options, modelDirections) {
  if (options.greedy) {
    return {
      ...options,
      beam: 1,
      scales: 1,
      adaptive: false,
      directions: "forward",
      rescore: false,
      finished: 1,
    };
  }
  const beam = Math.max(options.beam, options.topK);
  // Waiting for as many finished hypotheses as there are beams is slow and finds little more.
  const finished = options.finished ?? Math.min(beam, Math.max(MIN_FINISHED, options.topK));
  const isForward = modelDirections === "forward";
  const directions = isForward ? "forward" : options.directions;
  const rescore = options.rescore && !isForward;
  const adaptive = options.adaptive && options.topK === 1 && directions === "both" && rescore;
  return { ...options, beam, finished, directions, rescore, adaptive };
}
