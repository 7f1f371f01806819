"""The language model: training on texts, scores, RLFN, rescoring of n-best lists."""

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from posformer.cli import app
from posformer.errors import ConfigError, DataError, ModelError
from posformer.evaluation.rescoring import Rescorer
from posformer.latex import Vocabulary
from posformer.models import LanguageModelConfig
from posformer.models.language_model import LanguageModel, LanguageScorer, load_language_model
from posformer.search import Hypothesis
from posformer.synthesis.texts import canonical_tokens, is_validation_text
from posformer.training import language_training
from posformer.training.language_training import (
    LanguageTraining,
    take_language_model,
    train_language_model,
)
from tiny import VOCABULARY, tiny_recurrent

SMALL = LanguageModelConfig(width=16, heads=2, layers=2, feedforward=20, dropout=0.0)
TEXTS = ["x ^ { 2 } + 1", "a ^ { 2 } = x", r"\frac { 1 } { 2 }", "( x + 1 )", "a _ { 1 } = 2"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    lines = [f"{number}\t{text}" for number, text in enumerate(TEXTS * 60)]
    path.write_text("\n".join([*lines, "3\t\\unknown + 1"]))
    return path


@pytest.fixture(scope="module")
def trained(texts: Path) -> Path:
    """A language model that knows the texts by heart."""
    folder = texts.parent / "language"
    settings = LanguageTraining(minutes=0.05, batch_tokens=400, learning_rate=0.01)
    perplexity = train_language_model([texts], VOCABULARY, folder, SMALL, settings)
    assert 1 <= perplexity < 3 < len(VOCABULARY)
    return folder


@pytest.fixture
def scorer(trained: Path) -> LanguageScorer:
    return LanguageScorer(*load_language_model(trained))


def test_scores_are_mean_log_probabilities(scorer: LanguageScorer) -> None:
    tokens = ["x", "^", "{", "2", "}"]
    ids = [*VOCABULARY.encode(tokens), VOCABULARY.eos]
    total, prefix = 0.0, [VOCABULARY.sos]
    with torch.inference_mode():
        for token in ids:
            embedded = scorer.model.embed(torch.tensor([[prefix]]))
            total += scorer.model(embedded).logits[0, 0, -1].log_softmax(-1)[token].item()
            prefix.append(token)
    together = scorer.scores([tokens, ["x"], ["(", "x", "+", "1", ")", "=", "2"]])
    assert together[0] == pytest.approx(total / len(ids), abs=1e-5)
    assert together[1] == pytest.approx(scorer.scores([["x"]])[0], abs=1e-5)


def test_known_texts_score_better_than_others(scorer: LanguageScorer) -> None:
    good, bad = scorer.scores([["x", "^", "{", "2", "}", "+", "1"], ["x", "}", "^", "+", "1"]])
    assert good > bad + 1


def test_an_unknown_token_counts_as_an_even_choice(scorer: LanguageScorer) -> None:
    (score,) = scorer.scores([[r"\omega"]])
    (end,) = scorer.scores([[]])
    assert math.isfinite(score) and score < -math.log(len(VOCABULARY)) / 2
    assert math.isfinite(end)


def test_an_n_best_list_is_ranked_anew(trained: Path) -> None:
    def hypothesis(text: str, score: float) -> Hypothesis:
        return Hypothesis(tuple(VOCABULARY.encode(text.split())), score, score, None)

    best = [hypothesis("x ^ { = }", -0.10), hypothesis("x ^ { 2 } + 1", -0.15)]
    assert Rescorer.load(trained, 0.0).rank(best, VOCABULARY) == best
    assert Rescorer.load(trained, 0.5).rank(best, VOCABULARY) == best[::-1]
    malformed = [hypothesis("x ^ { 2", 0.0), hypothesis("- - =", -9.0)]
    assert Rescorer.load(trained, 0.1).rank(malformed, VOCABULARY) == malformed[::-1]


def test_rlfn_starts_from_it_token_by_token(trained: Path) -> None:
    tokens = ["new", *VOCABULARY.tokens[::-1]]
    from posformer.models.registry import create_model

    config = tiny_recurrent("rlfn").config
    model = create_model(config, Vocabulary(tokens))
    take_language_model(model, trained)
    source, _ = load_language_model(trained)
    language = model.language  # type: ignore[union-attr]
    place = model.vocabulary.index("x")
    expected = source.embed.weight[VOCABULARY.index("x")]
    assert torch.equal(language.embed.weight[place], expected)
    assert torch.equal(language.layers[0].expand.weight, source.layers[0].expand.weight)  # type: ignore[union-attr]


def test_held_out_and_validation_texts_are_not_learned(tmp_path: Path) -> None:
    several = [" ".join(choice) for choice in product("12ax", "+-", "12ax", "=", "12ax", "12ax")]
    several += [f"( {text} )" for text in several]
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS + several))
    expected = [text for text in several if is_validation_text(canonical_tokens(text.split()))]
    assert expected
    # The same tree as the first text, in another spelling.
    unseen = [["x", "^", "2", "+", "1"]]
    settings = LanguageTraining(minutes=0.001)
    learned: list[int] = []

    def note(model: LanguageModel, texts: list[np.ndarray], _: LanguageTraining) -> int:
        learned.append(len(texts))
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(language_training, "_fit", note)
        for held_out in ([], unseen):
            train_language_model(
                [tmp_path / "texts.txt"], VOCABULARY, tmp_path / "lm", SMALL, settings, held_out
            )
    trained_on = len(TEXTS) + len(several) - len(expected)
    assert learned == [trained_on, trained_on - 1]
    info = json.loads((tmp_path / "lm" / "language_model.json").read_text())["info"]
    assert info["dropped"] == 1


def test_errors_say_what_does_not_fit(trained: Path, texts: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dwap has no language model"):
        take_language_model(tiny_recurrent("dwap"), trained)
    with pytest.raises(ConfigError, match="other sizes"):
        settings = {"language": {"width": 24, "heads": 2}}
        take_language_model(tiny_recurrent("rlfn", settings), trained)
    with pytest.raises(ModelError, match="not a language model"):
        load_language_model(tmp_path)
    with pytest.raises(DataError, match="no text uses only"):
        unfit = Vocabulary(["q"])
        train_language_model([texts], unfit, tmp_path / "lm", SMALL, LanguageTraining())


def test_the_commands(texts: Path, tiny_folder: Path, own_set: Path, tmp_path: Path) -> None:
    vocabulary, folder = tmp_path / "tokens.txt", tmp_path / "language"
    VOCABULARY.save(vocabulary)
    options = ["--output", folder, "--vocabulary", vocabulary, "--minutes", "0.01", "--width", "16"]
    options += ["--held-out", f"{own_set}:train"]
    arguments = ["train-language-model", str(texts), *map(str, options)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "perplexity" in result.output
    assert "held-out expressions dropped" in result.output
    options = ["--model", tiny_folder, "--data", own_set, "--split", "train", "--limit", "2"]
    options += ["--beam", "2", "--output", tmp_path / "scores.json"]
    arguments = ["evaluate", *map(str, options), "--language-model"]
    assert CliRunner().invoke(app, [*arguments, str(folder)]).exit_code == 0
    refused = CliRunner().invoke(app, [*arguments, str(folder), "--greedy"])
    assert refused.exit_code == 2
