"""Score tables for terminals and Markdown, with the results of the paper."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from posformer.evaluation.kind_scores import KindScore
from posformer.evaluation.metrics import ScoreBin, Scores


class PaperResult(NamedTuple):
    """A result reported in the paper, in percent; None where the paper has a dash."""

    split: str
    model: str
    scale_augmentation: bool | None
    """Whether the model was trained with scale augmentation; None if the paper does not say."""
    exprate: float
    le1: float | None = None
    le2: float | None = None
    le3: float | None = None
    other_tool: bool = False
    """Whether ≤1 to ≤3 were computed by lgeval, which counts errors differently."""


PAPER_RESULTS = (
    PaperResult("2014", "DWAP", False, 50.10),
    PaperResult("2014", "BTTR", False, 53.96, 66.02, 70.28),
    PaperResult("2014", "CAN", False, 57.26, 74.52, 82.03),
    PaperResult("2014", "PosFormer", False, 60.45, 77.28, 83.68, 87.83),
    PaperResult("2014", "CoMER", True, 59.33, 71.70, 75.66, 77.89, other_tool=True),
    PaperResult("2014", "PosFormer", True, 62.68, 79.01, 84.69, 88.84),
    PaperResult("2016", "DWAP", False, 47.50),
    PaperResult("2016", "BTTR", False, 52.31, 63.90, 68.61),
    PaperResult("2016", "CAN", False, 56.15, 72.71, 80.30),
    PaperResult("2016", "PosFormer", False, 60.94, 76.72, 83.87, 88.06),
    PaperResult("2016", "CoMER", True, 59.81, 74.37, 80.30, 82.56, other_tool=True),
    PaperResult("2016", "PosFormer", True, 61.03, 77.86, 84.74, 89.28),
    PaperResult("2019", "BTTR", False, 52.96, 65.97, 69.14),
    PaperResult("2019", "CAN", False, 55.96, 72.73, 80.57),
    PaperResult("2019", "PosFormer", False, 62.22, 79.40, 86.57, 89.99),
    PaperResult("2019", "CoMER", True, 62.97, 77.40, 81.40, 83.07, other_tool=True),
    PaperResult("2019", "PosFormer", True, 64.97, 82.49, 87.24, 90.16),
    PaperResult("N1", "CoMER", None, 59.73, 77.55, 84.11, 88.91),
    PaperResult("N1", "PosFormer", None, 60.59, 77.97, 84.32, 88.75),
    PaperResult("N2", "CoMER", None, 37.17, 53.95, 65.13, 72.37),
    PaperResult("N2", "PosFormer", None, 38.82, 56.91, 66.12, 73.36),
    PaperResult("N3", "CAN", None, 7.72, 10.52, 12.43, 15.44),
    PaperResult("N3", "CoMER", None, 24.04, 32.31, 36.34, 39.89),
    PaperResult("N3", "PosFormer", None, 34.08, 36.82, 40.30, 43.10),
)

HEADER = ("model", "ExpRate", "≤1", "≤2", "≤3", "CER")
"""Column names of `table_rows`."""
_KIND_HEADER = (
    "kind", "count", "sources", "ExpRate", "case ignored", "mean of sources", "case ignored",
)  # fmt: skip
_NO_SCALE = "†"
_OTHER_TOOL = "‡"


def rich_tables(
    scores: Scores, *, split: str | None = None, model: str = "this model", used_ink: bool = False
) -> Group:
    """Return the scores as tables for a terminal.

    Args:
        scores: The scores of the model.
        split: The benchmark, such as `2014`, whose results in the paper are added.
        model: Name of the model.
        used_ink: Whether the model was trained on the ink of the training set, unlike the paper's.
    """
    main = _rich_table(HEADER, table_rows(scores, split, model))
    main.title, main.title_justify = f"{scores.count} expressions", "left"
    main.rows[0].style = "bold"
    notes = [Text(remark, style="dim") for remark in _remarks(scores, split, used_ink=used_ink)]
    return Group(main, *notes, *(_rich_table(*table) for table in _bin_tables(scores)))


def markdown_table(
    scores: Scores, *, split: str | None = None, model: str = "this model", used_ink: bool = False
) -> str:
    """Return the scores as Markdown tables; arguments as for `rich_tables`."""
    own, *paper = table_rows(scores, split, model)
    own = tuple(f"**{cell}**" for cell in own)
    blocks = [
        format_markdown(HEADER, [own, *paper]),
        "\n".join(f"- {remark}" for remark in _remarks(scores, split, used_ink=used_ink)),
        *(format_markdown(*table) for table in _bin_tables(scores)),
    ]
    return "\n\n".join(blocks) + "\n"


def format_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def paper_remarks(split: str | None = None, *, used_ink: bool = False) -> list[str]:
    """Return the differences between our evaluation and the paper's."""
    results = _paper_results(split)
    no_scale = any(result.scale_augmentation is False for result in results)
    other_tool = any(result.other_tool for result in results)
    remarks = {
        "This model was also trained on the ink of the training set; others were not.": used_ink,
        "Other rows: results of the paper, with checkpoints selected on CROHME 2014.": True,
        f"{_NO_SCALE} trained without scale augmentation.": no_scale,
        f"{_OTHER_TOOL} ≤1 to ≤3 computed by another tool (lgeval): not comparable.": other_tool,
    }
    return [remark for remark, applies in remarks.items() if results and applies]


def table_rows(
    scores: Scores, split: str | None = None, model: str = "this model"
) -> list[tuple[str, ...]]:
    """Return the rows of the main table: the model, then the results of the paper."""
    percents = (scores.exprate, scores.le1, scores.le2, scores.le3)
    own = (model, *(f"{value:.2f}" for value in percents), f"{scores.cer:.4f}")
    return [own, *(_paper_row(result) for result in _paper_results(split))]


def range_text(one: ScoreBin) -> str:
    """Return the levels or lengths of a bin, such as `11–20`."""
    return str(one.first) if one.first == one.last else f"{one.first}–{one.last}"


def _remarks(scores: Scores, split: str | None, *, used_ink: bool) -> list[str]:
    low, high = scores.exprate_interval
    own = (
        f"95 % interval of ExpRate: {low:.2f} to {high:.2f}; "
        f"{scores.syntax_validity:.2f} % of the predictions are well-formed LaTeX."
    )
    return [own, *paper_remarks(split, used_ink=used_ink)]


def _paper_results(split: str | None) -> list[PaperResult]:
    return [result for result in PAPER_RESULTS if result.split == split]


def _paper_row(result: PaperResult) -> tuple[str, ...]:
    name = result.model + (_NO_SCALE if result.scale_augmentation is False else "")
    mark = _OTHER_TOOL if result.other_tool else ""
    values = (result.le1, result.le2, result.le3)
    tolerant = ("-" if value is None else f"{value:.2f}{mark}" for value in values)
    return (name, f"{result.exprate:.2f}", *tolerant, "-")


def _bin_tables(scores: Scores) -> Iterator[tuple[Sequence[str], Sequence[Sequence[str]]]]:
    if scores.by_kind:
        yield _KIND_HEADER, [_kind_row(one) for one in scores.by_kind]
    for name, bins in (("nested level", scores.by_level), ("tokens", scores.by_length)):
        rows = [(range_text(one), str(one.count), f"{one.exprate:.2f}") for one in bins]
        yield (name, "count", "ExpRate"), rows


def _kind_row(one: KindScore) -> tuple[str, ...]:
    rates = (one.exprate, one.exprate_no_case, one.source_exprate, one.source_exprate_no_case)
    return (one.kind, str(one.count), str(one.sources), *(f"{rate:.1f}" for rate in rates))


def _rich_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table()
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for row in rows:
        table.add_row(*row)
    return table
