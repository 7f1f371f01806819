"""The n-gram language model: its probabilities, its file, and its part in the search."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_decoders import EOS, PAD, SOS, RandomDecoder, all_sequences, score

from posformer.errors import ConfigError, ModelError
from posformer.latex import Vocabulary
from posformer.search import DecodingOptions, NgramModel, adaptive_result, first_pass, search
from posformer.search.adaptive import Doubt, second_pass
from posformer.synthesis.texts import TextCorpus
from posformer.training.ngram_training import count_ngrams

TOKENS = ("a", "b", "c", "+")
TEXTS = ["a + b", "a + c", "b + c", "a + b + c", "c", "a + b", "c + a", "b b b"]
VOCABULARY = Vocabulary(("=", *TOKENS))  # the model knows one more token, in another place


def corpus(texts: list[str] = TEXTS) -> TextCorpus:
    ids = [[TOKENS.index(token) for token in text.split()] for text in texts]
    starts = np.cumsum([0, *map(len, ids)])
    return TextCorpus(TOKENS, np.concatenate(ids).astype(np.uint16), starts, np.zeros(len(texts)))


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return count_ngrams(corpus(), (1, 1, 1)).for_vocabulary(VOCABULARY)


def kneser_ney(order: int = 3) -> dict[tuple[str, ...], float]:
    """Probabilities of all n-grams by the formula, one at a time."""
    lines = [["<s>", *text.split(), "</s>"] for text in TEXTS]
    raw = [Counter[tuple[str, ...]]() for _ in range(order + 1)]
    for line in lines:
        for end in range(1, len(line)):
            for n in range(1, min(order, end + 1) + 1):
                raw[n][tuple(line[end - n + 1 : end + 1])] += 1
    counts = [Counter(one) for one in raw]
    for n in range(1, order):
        for gram in raw[n]:
            if gram[0] != "<s>":
                counts[n][gram] = sum(longer[1:] == gram for longer in raw[n + 1])
    found: dict[tuple[str, ...], float] = {}
    for n in range(1, order + 1):
        once, twice = (sum(count == k for count in counts[n].values()) for k in (1, 2))
        discount = once / (once + 2 * twice)
        for gram, count in counts[n].items():
            same = [one for other, one in counts[n].items() if other[:-1] == gram[:-1]]
            if n == 1:
                found[gram] = count / sum(same)
                continue
            left = sum(min(one, discount) for one in same) / sum(same)
            found[gram] = (count - discount) / sum(same) + left * found[gram[1:]]
    return found


def test_probabilities_are_those_of_kneser_ney_smoothing(model: NgramModel) -> None:
    known = kneser_ney()
    expected = [
        known[("<s>", "a")],
        known[("<s>", "a", "+")],
        known[("a", "+", "b")],
        known[("+", "b", "</s>")],
    ]
    found = model.mean_log_probability(VOCABULARY.encode(["a", "+", "b"]))
    assert found == pytest.approx(np.log(expected).mean(), abs=0.5 / 16)


@pytest.mark.parametrize("counts", [(1, 1, 1), (1, 2, 2), (1, 9, 9)])
@pytest.mark.parametrize("before", [[], ["a"], ["a", "+"], ["+", "+"], ["c", "b"]])
def test_probabilities_of_all_next_tokens_sum_to_one(counts, before) -> None:
    model = count_ngrams(corpus(), counts).for_vocabulary(VOCABULARY)

    def total(tokens: list[str]) -> float:
        ids = VOCABULARY.encode(tokens)
        return model.mean_log_probability(ids) * (len(ids) + 1)

    # The log-probabilities of a text without its end: that of a longer one would contain it.
    def of_prefix(tokens: list[str]) -> float:
        line = np.array([0, 0, 1, *(3 + TOKENS.index(token) for token in tokens)], np.uint32)
        return sum(next_token(model, line[: end + 1]) for end in range(3, len(line)))

    start = of_prefix(before)
    shares = [math.exp(of_prefix([*before, token]) - start) for token in TOKENS]
    shares.append(math.exp(total(before) - start))
    assert sum(shares) == pytest.approx(1, abs=0.07)  # logarithms are stored in steps of 1/16


def next_token(model: NgramModel, line: np.ndarray) -> float:
    """The log-probability of the last token of a line, by the definition of back-off."""
    from posformer.search.ngram_model import hash_ngrams

    def value(table, n: int, place: slice) -> float | None:
        found, one = table.look_up(hash_ngrams(line[place], len(line[place]) - 1, n))
        return float(one[0]) if found[0] else None

    def probability(n: int) -> float:
        known = value(model.ngrams[n - 1], n, slice(None))
        if known is not None or n == 1:
            return known or 0.0
        backoff = value(model.contexts[n - 2], n - 1, slice(0, -1))
        return (backoff or 0.0) + probability(n - 1)

    return probability(model.order)


def test_usual_texts_are_more_likely(model: NgramModel) -> None:
    usual, unusual = (
        model.mean_log_probability(VOCABULARY.encode(text.split())) for text in ("a + b", "+ a b")
    )
    assert usual > unusual + 0.5


def test_unknown_tokens_do_not_count(model: NgramModel) -> None:
    with_unknown = model.mean_log_probability(VOCABULARY.encode(["a", "=", "c"]))
    known = kneser_ney()
    # The context of `c` is unknown; that of the end is, too, from the second token on.
    expected = [known[("<s>", "a")], known[("c",)], known[("c", "</s>")]]
    assert with_unknown == pytest.approx(np.log(expected).mean(), abs=0.5 / 16)
    empty = replace(model, ids=np.zeros(len(VOCABULARY), np.uint32), ngrams=model.ngrams[:1])
    assert empty.mean_log_probability([VOCABULARY.index("a")]) < 0  # the end counts


def test_rare_ngrams_are_left_out() -> None:
    everything, frequent = count_ngrams(corpus(), (1, 1, 1)), count_ngrams(corpus(), (1, 3, 3))
    assert [len(table.hashes) for table in everything.ngrams] > [
        len(table.hashes) for table in frequent.ngrams
    ]
    assert len(frequent.ngrams[1].hashes) == 6  # <s> a, a +, + b, + c, b </s>, c </s>


def test_a_file_holds_the_model(model: NgramModel, tmp_path: Path) -> None:
    path = tmp_path / "made" / "language.safetensors"
    replace(model, info={"texts": 8}).save(path)
    loaded = NgramModel.load(path)
    assert loaded.tokens == TOKENS and loaded.info == {"texts": 8}
    ids = VOCABULARY.encode(["b", "+", "c", "+", "a"])
    again = loaded.for_vocabulary(VOCABULARY)
    assert again.mean_log_probability(ids) == model.mean_log_probability(ids)


def test_others_can_read_the_file(model: NgramModel, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model.save(tmp_path / "language.safetensors")
    arrays = safetensors.load_file(tmp_path / "language.safetensors")
    assert np.array_equal(arrays["ngrams.2.hashes"], model.ngrams[1].hashes)


@pytest.mark.parametrize("kept", [0, 4, 200, -1])
def test_a_damaged_file_is_an_error(model: NgramModel, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "language.safetensors"
    model.save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"language\.safetensors: not an n-gram model"):
        NgramModel.load(path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        NgramModel.load(tmp_path / "none")


def test_ngrams_that_do_not_fit_into_a_number_are_an_error() -> None:
    with pytest.raises(ConfigError, match="too long"):
        count_ngrams(corpus(), [1] * 40)


def made_up_prior(tokens: tuple[int, ...]) -> float:
    """A prior without any order among the sequences."""
    return -((sum(place * token for place, token in enumerate(tokens, 2)) * 37) % 11) / 20


@pytest.mark.parametrize("seed", range(5))
def test_search_ranks_by_score_and_prior(seed: int) -> None:
    decoder = RandomDecoder(seed, 2, 3)
    sequences = list(all_sequences(3, 3))
    options = DecodingOptions(
        beam=len(sequences), max_length=3, top_k=len(sequences), stopping="certain", scales=1
    )
    found = search(decoder, options, SOS, EOS, 2, PAD, prior=made_up_prior)
    for image in range(2):
        own = {
            tokens: tuple(score(decoder, image, tokens, way) for way in (False, True))
            for tokens in sequences
        }
        totals = {tokens: sum(own[tokens]) + 2 * made_up_prior(tokens) for tokens in sequences}
        assert [one.tokens for one in found[image]] == sorted(totals, key=lambda one: -totals[one])
        for one in found[image]:
            assert one.score == pytest.approx(totals[one.tokens], abs=1e-5)
            assert (one.forward, one.backward) == pytest.approx(own[one.tokens], abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_adaptive_search_uses_the_prior_in_both_passes(seed: int) -> None:
    one, other = RandomDecoder(seed, 1, 4), RandomDecoder(seed + 99, 1, 4)
    options = DecodingOptions(beam=4, max_length=4, scales=2).resolve()
    (first,) = first_pass(one, options, 9.0, SOS, EOS, 1, PAD, prior=made_up_prior)
    doubts = [Doubt(first, one, 0)]
    (scores,) = second_pass(
        doubts, [other], options, 9.0, SOS, EOS, every=True, prior=made_up_prior
    )
    (best,) = adaptive_result(scores, 9.0, options, made_up_prior)
    means = {
        tokens: np.mean([score(m, 0, tokens, way) for m in (one, other) for way in (False, True)])
        for tokens in scores
    }
    assert len(scores) > 1
    assert best.tokens == max(means, key=lambda tokens: means[tokens] + made_up_prior(tokens))
    assert best.forward is not None and best.backward is not None
    assert (best.forward + best.backward) / 2 == pytest.approx(means[best.tokens], abs=1e-5)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_the_prior_has_the_unit_of_the_score(model: NgramModel, power: float) -> None:
    ids = tuple(VOCABULARY.encode(["a", "+", "b"]))
    mean = model.mean_log_probability(ids)
    prior = model.prior(0.3, power)
    assert prior(ids) == pytest.approx(0.15 * mean * (1 if power else 4))
    assert model.prior(0.0, power)(ids) == 0


def test_a_negative_weight_is_an_error() -> None:
    with pytest.raises(ConfigError, match="language_weight must be at least 0"):
        DecodingOptions(language_weight=-0.1)
