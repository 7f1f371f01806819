"""Metrics, significance tests, tables and the HTML report.

The metrics need neither a runtime nor matplotlib: the report is imported on first use. The
torchmetrics versions are in `posformer.evaluation.torch_metrics`.
"""

from typing import TYPE_CHECKING, Any

from posformer.evaluation.error_kinds import ErrorAnalysis, ErrorCounts, analyze_error, count_errors
from posformer.evaluation.label_graphs import label_graph, write_label_graphs
from posformer.evaluation.metrics import ScoreBin, Scores, edit_distances, evaluate_pairs
from posformer.evaluation.paired import Comparison, compare
from posformer.evaluation.predictions import (
    Prediction,
    read_predictions,
    write_predictions,
    write_scores,
)
from posformer.evaluation.score_table import markdown_table, rich_tables
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

if TYPE_CHECKING:
    from posformer.evaluation.report import ReportOptions, report_page, write_report

__all__ = [
    "Comparison", "Confusion", "ErrorAnalysis", "ErrorCounts", "Intervals", "Pair", "Prediction",
    "ReportOptions", "ScoreBin", "Scores", "SymbolScore", "align", "analyze_error",
    "bootstrap_difference", "bootstrap_intervals", "compare", "count_confusions", "count_errors",
    "edit_distances", "evaluate_pairs", "label_graph", "markdown_table", "mcnemar",
    "read_predictions", "report_page", "rich_tables", "score_symbols", "write_label_graphs",
    "write_predictions", "write_report", "write_scores",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("ReportOptions", "report_page", "write_report"):
        from posformer.evaluation import report

        return getattr(report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
