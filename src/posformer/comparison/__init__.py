"""Several configs at one budget, as the paper's tables have them. Needs the extra `train`."""

from posformer.comparison.candidates import Contender, gather
from posformer.comparison.comparison_plot import draw_plot
from posformer.comparison.comparison_report import write_report
from posformer.comparison.comparison_table import Gain, Measure, Row, make_rows, markdown
from posformer.comparison.runs import Benchmark, Result, run_all

__all__ = [
    "Benchmark",
    "Contender",
    "Gain",
    "Measure",
    "Result",
    "Row",
    "draw_plot",
    "gather",
    "make_rows",
    "markdown",
    "run_all",
    "write_report",
]
