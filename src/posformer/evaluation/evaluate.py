"""Scores predictions and writes the requested files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posformer.evaluation.kind_scores import score
from posformer.evaluation.label_graphs import write_label_graphs
from posformer.evaluation.metrics import Scores
from posformer.evaluation.paired import Comparison, compare
from posformer.evaluation.predict import EvaluationSet
from posformer.evaluation.predictions import Prediction, write_predictions, write_scores

if TYPE_CHECKING:
    from posformer.evaluation.report import ReportOptions


@dataclass(frozen=True)
class EvaluationOutputs:
    """Files and folders that an evaluation writes; None: not written."""

    scores: Path | None = None  # JSON
    predictions: Path | None = None  # JSON lines
    report: Path | None = None  # folder of an HTML report
    label_graphs: Path | None = None  # folder of symLG files


def evaluate_predictions(
    predictions: Sequence[Prediction],
    outputs: EvaluationOutputs,
    report_options: ReportOptions | None = None,
    examples: EvaluationSet | None = None,
    others: Sequence[Prediction] | None = None,
) -> tuple[Scores, Comparison | None]:
    """Score predictions and write the requested files.

    Args:
        predictions: The predictions of a model.
        outputs: What to write.
        report_options: Titles and size of the report.
        examples: The dataset, whose images the report shows.
        others: Predictions of another model to compare with.

    Returns:
        The scores, and the comparison if there are other predictions.
    """
    scores = score(predictions)
    comparison = None if others is None else compare(predictions, others)
    if outputs.predictions is not None:
        write_predictions(outputs.predictions, predictions)
    if outputs.scores is not None:
        write_scores(outputs.scores, scores)
    if outputs.label_graphs is not None:
        write_label_graphs(outputs.label_graphs, predictions)
    if outputs.report is not None:
        from posformer.evaluation.report import write_report

        find_image = examples.find_image if examples else None
        write_report(outputs.report, predictions, find_image, comparison, report_options)
    return scores, comparison
