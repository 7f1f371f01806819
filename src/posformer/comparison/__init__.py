"""Configs trained and evaluated with an equal budget. Needs the extra `train`."""

from posformer.comparison.candidates import Candidate, gather, split_arguments
from posformer.comparison.comparison_report import draw_plot, write_report
from posformer.comparison.comparison_table import Estimate, Gain, TableRow, make_rows, markdown
from posformer.comparison.runs import Benchmark, Result, run_all

__all__ = [
    "Benchmark", "Candidate", "Estimate", "Gain", "Result", "TableRow", "draw_plot", "gather",
    "make_rows", "markdown", "run_all", "split_arguments", "write_report",
]  # fmt: skip
