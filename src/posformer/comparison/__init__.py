"""Several recipes at one budget, as the paper's tables have them. Needs the extra `train`."""

from posformer.comparison.contenders import ComparisonError, Contender, gather
from posformer.comparison.plot import draw_plot
from posformer.comparison.report import write_report
from posformer.comparison.runs import Benchmark, Result, run_all
from posformer.comparison.table import Gain, Measure, Row, make_rows, markdown

__all__ = [
    "Benchmark",
    "ComparisonError",
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
