"""The torchmetrics agree with the metrics over token sequences."""

import pytest

torch = pytest.importorskip("torch")

from posformer.evaluation import evaluate_pairs  # noqa: E402
from posformer.evaluation.torch_metrics import ExpressionErrors, TeacherForcedExpRate  # noqa: E402

TRUTHS = [["a", "b", "c", "d"]] * 5
GUESSES = [["a", "b", "c", "d"], ["a", "b", "c"], ["a", "x", "c", "y"], ["d"], []]


def test_batches_are_accumulated():
    metric = ExpressionErrors()
    metric.update(TRUTHS[:2], GUESSES[:2])
    metric.update(TRUTHS[2:], GUESSES[2:])
    expected = evaluate_pairs(TRUTHS, GUESSES).to_json()
    for name, value in metric.compute().items():
        assert float(value) == pytest.approx(expected[name])


def test_reset_clears_the_state():
    metric = ExpressionErrors()
    metric.update(TRUTHS, GUESSES)
    metric.reset()
    metric.update([["x"]], [["x"]])
    assert float(metric.compute()["exprate"]) == 100


def test_teacher_forced_exprate_counts_expressions_without_a_wrong_step():
    targets = torch.tensor([[3, 4, 2], [5, 2, 0], [3, 3, 2]])
    logits = torch.nn.functional.one_hot(torch.tensor([[3, 4, 2], [5, 2, 7], [3, 4, 2]]), 8).float()
    metric = TeacherForcedExpRate(pad=0)
    metric.update(logits, targets)
    assert float(metric.compute()) == pytest.approx(200 / 3)
