/**
 * Beam search for one image, in one or both directions at once.
 *
 * Every direction is a search of its own: its beams compete only with each other. All searches
 * advance together, with one decoder call per step. Greedy search is a search with one beam.
 */

/**
 * A direction of decoding: `start` and `end` are its tokens before the first and after the last,
 * `reverse` whether tokens are decoded in the reverse of reading order. With `greedy`, it is searched
 * with a single beam, whatever the options say.
 */
export function bothDirections({ sos, eos }) {
  return [
    { start: sos, end: eos, reverse: false },
    { start: eos, end: sos, reverse: true },
  ];
}

/** The beams of the search in a direction. */
const widthOf = ({ greedy }, { beam }) => (greedy ? 1 : beam);

/** The best finished hypotheses of one direction, at most `size`. */
class Finished {
  constructor(size) {
    this.size = size;
    this.worst = -Infinity; // until there are `size`
    this.hypotheses = [];
  }

  add(hypothesis) {
    if (!(hypothesis.score > this.worst)) return;
    this.hypotheses.push(hypothesis);
    this.hypotheses.sort((one, other) => other.score - one.score);
    this.hypotheses.length = Math.min(this.hypotheses.length, this.size);
    if (this.hypotheses.length === this.size) this.worst = this.hypotheses.at(-1).score;
  }
}

/**
 * Find the best hypotheses of an image in every direction.
 *
 * @param model a step model with one image, see `runtime.js`
 * @param options resolved options
 * @param directions the directions to search in
 * @param {{pad: number, constraint: object | null, limit: number}} rules `pad` is never chosen;
 *   `constraint` is the language of the hypotheses, any tokens if null; `limit` the maximum number
 *   of tokens
 * @returns for every direction the finished hypotheses `{ tokens, score }`, best first
 */
export async function beamSearch(model, options, directions, { pad, constraint, limit }) {
  const size = options.finished ?? options.beam;
  const finished = directions.map(({ greedy }) => new Finished(greedy ? 1 : size));
  const longest = Math.min(options.maxLength, limit);
  let searches = directions.map((direction, number) => ({
    direction,
    finished: finished[number],
    width: widthOf(direction, options),
    beams: [
      { total: 0, tokens: [], last: direction.start, state: constraint?.start(direction.reverse) },
    ],
  }));
  let state = model.start();
  let origin = searches.map(() => 0); // index of each open beam among those of the last step
  for (let length = 0; length <= options.maxLength; length++) {
    const open = searches.flatMap(({ beams }) => beams);
    const stepped = await model.step(
      open.map(({ last }) => [last]),
      state,
      origin,
    );
    state = stepped.state;
    let first = 0;
    for (const search of searches) {
      const rows = search.beams.map((_, number) => stepped.logProbs(first + number, 0));
      const candidates = bestCandidates(search, rows, 2 * search.width, {
        pad,
        constraint,
        remaining: longest - length,
      });
      collectFinished(search, candidates, length, options);
      search.next = continued(search, candidates, length, options, constraint);
      for (const beam of search.next) beam.origin = first + beam.parent;
      first += search.beams.length;
    }
    searches = searches.filter(({ next }) => next.length);
    if (!searches.length) break;
    for (const search of searches) search.beams = search.next;
    origin = searches.flatMap(({ beams }) => beams.map((beam) => beam.origin));
  }
  return finished.map(({ hypotheses }) => hypotheses);
}

/** Return the best continuations, best first; ties go to the first beam and the smallest token. */
function bestCandidates({ beams, direction }, rows, count, { pad, constraint, remaining }) {
  const best = [];
  beams.forEach((beam, parent) => {
    const isAllowed = constraint?.allowed(beam.state, remaining);
    const row = rows[parent];
    for (let token = 0; token < row.length; token++) {
      const total = beam.total + row[token];
      if (best.length === count && !(total > best[count - 1].total)) continue;
      if (token === pad || token === direction.start || total === -Infinity) continue;
      if (remaining <= 0 && token !== direction.end) continue; // so that the longest finish too
      if (isAllowed && !isAllowed(token)) continue;
      if (best.length === count) best.pop();
      let place = best.length;
      while (place > 0 && total > best[place - 1].total) place--;
      best.splice(place, 0, { total, parent, token, ended: token === direction.end });
    }
  });
  return best;
}

/**
 * Store the candidates that ended.
 *
 * Only as many candidates of a search count as it has beams: an ended candidate is stored only if it would
 * have survived as an open beam.
 */
function collectFinished({ beams, direction, finished, width }, candidates, length, options) {
  for (const { total, parent, ended } of candidates.slice(0, width)) {
    if (!ended) continue;
    const tokens = direction.reverse ? beams[parent].tokens.toReversed() : beams[parent].tokens;
    finished.add({ tokens, score: total / (length + 1) ** options.lengthPower });
  }
}

/** Return the open candidates as new beams; none if the search is done. */
function continued({ beams, finished, width }, candidates, length, options, constraint) {
  const open = candidates.filter(({ ended }) => !ended);
  if (!open.length) return [];
  const horizon = options.stopping === "likely" ? length + 1 : options.maxLength + 1;
  if (open[0].total / horizon ** options.lengthPower <= finished.worst) return [];
  return open.slice(0, width).map(({ total, parent, token }) => ({
    total,
    parent,
    tokens: [...beams[parent].tokens, token],
    last: token,
    state: constraint?.advance(beams[parent].state, token),
  }));
}
