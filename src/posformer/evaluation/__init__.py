"""Measures, tables, files of predictions; `metrics`, which needs PyTorch, is imported by name."""

from posformer.evaluation.measures import (
    EvaluationError,
    Row,
    Scores,
    edit_distances,
    evaluate_pairs,
)
from posformer.evaluation.predictions import (
    Prediction,
    read_predictions,
    write_predictions,
    write_scores,
)
from posformer.evaluation.table import markdown_table, remarks, rich_tables

__all__ = [
    "EvaluationError",
    "Prediction",
    "Row",
    "Scores",
    "edit_distances",
    "evaluate_pairs",
    "markdown_table",
    "read_predictions",
    "remarks",
    "rich_tables",
    "write_predictions",
    "write_scores",
]
