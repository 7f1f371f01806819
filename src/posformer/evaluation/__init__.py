"""Measures, tables, files of predictions, reports; `metrics` needs PyTorch: import it by name."""

from posformer.evaluation.error_kinds import ErrorCounts, Mistake, count_errors, find_mistake
from posformer.evaluation.label_graphs import label_graph, write_label_graphs
from posformer.evaluation.metrics import Row, Scores, edit_distances, evaluate_pairs
from posformer.evaluation.paired import Comparison, compare
from posformer.evaluation.predictions import (
    Prediction,
    read_predictions,
    write_predictions,
    write_scores,
)
from posformer.evaluation.report import ReportOptions, report_page, write_report
from posformer.evaluation.score_table import markdown_table, remarks, rich_tables
from posformer.evaluation.significance import (
    Intervals,
    bootstrap_difference,
    bootstrap_intervals,
    mcnemar,
)
from posformer.evaluation.symbol_scores import (
    Confusion,
    SymbolScore,
    count_confusions,
    score_symbols,
)
from posformer.evaluation.token_alignment import Pair, align

__all__ = [
    "Comparison",
    "Confusion",
    "ErrorCounts",
    "Intervals",
    "Mistake",
    "Pair",
    "Prediction",
    "ReportOptions",
    "Row",
    "Scores",
    "SymbolScore",
    "align",
    "bootstrap_difference",
    "bootstrap_intervals",
    "compare",
    "count_confusions",
    "count_errors",
    "edit_distances",
    "evaluate_pairs",
    "find_mistake",
    "label_graph",
    "markdown_table",
    "mcnemar",
    "read_predictions",
    "remarks",
    "report_page",
    "rich_tables",
    "score_symbols",
    "write_label_graphs",
    "write_predictions",
    "write_report",
    "write_scores",
]
