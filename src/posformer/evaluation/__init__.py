"""Metrics, significance tests, tables and the HTML report.

Names are imported on first use: the metrics need neither a runtime nor matplotlib. The torchmetrics
versions are in `posformer.evaluation.torch_metrics`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posformer.evaluation.error_kinds import (
        ErrorAnalysis,
        ErrorCounts,
        analyze_error,
        count_errors,
    )
    from posformer.evaluation.label_graphs import label_graph, write_label_graphs
    from posformer.evaluation.metrics import ScoreBin, Scores, edit_distances, evaluate_pairs
    from posformer.evaluation.paired import Comparison, compare
    from posformer.evaluation.predictions import (
        Prediction,
        read_predictions,
        write_predictions,
        write_scores,
    )
    from posformer.evaluation.report import ReportOptions, report_page, write_report
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

_MODULES = {
    "error_kinds": ("ErrorAnalysis", "ErrorCounts", "analyze_error", "count_errors"),
    "label_graphs": ("label_graph", "write_label_graphs"),
    "metrics": ("ScoreBin", "Scores", "edit_distances", "evaluate_pairs"),
    "paired": ("Comparison", "compare"),
    "predictions": ("Prediction", "read_predictions", "write_predictions", "write_scores"),
    "report": ("ReportOptions", "report_page", "write_report"),
    "score_table": ("markdown_table", "rich_tables"),
    "significance": ("Intervals", "bootstrap_difference", "bootstrap_intervals", "mcnemar"),
    "symbol_scores": ("Confusion", "SymbolScore", "count_confusions", "score_symbols"),
    "token_alignment": ("Pair", "align"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Comparison",
    "Confusion",
    "ErrorAnalysis",
    "ErrorCounts",
    "Intervals",
    "Pair",
    "Prediction",
    "ReportOptions",
    "ScoreBin",
    "Scores",
    "SymbolScore",
    "align",
    "analyze_error",
    "bootstrap_difference",
    "bootstrap_intervals",
    "compare",
    "count_confusions",
    "count_errors",
    "edit_distances",
    "evaluate_pairs",
    "label_graph",
    "markdown_table",
    "mcnemar",
    "read_predictions",
    "report_page",
    "rich_tables",
    "score_symbols",
    "write_label_graphs",
    "write_predictions",
    "write_report",
    "write_scores",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
