"""Measures as tables for people, beside what the paper reports."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from posformer.evaluation.metrics import Row, Scores

__all__ = [
    "HEADER",
    "PAPER_ROWS",
    "PaperRow",
    "markdown_table",
    "paper_remarks",
    "range_text",
    "remarks",
    "rich_tables",
    "table_lines",
]


@dataclass(frozen=True)
class PaperRow:
    """A line of the paper's tables, in per cent; None where the paper has a dash."""

    split: str
    model: str
    scale_augmentation: bool | None
    """Whether it was trained with scale augmentation; None where the paper does not say."""
    exprate: float
    le1: float | None = None
    le2: float | None = None
    le3: float | None = None
    other_tool: bool = False
    """Whether the ≤k were measured with lgeval, which counts errors in another way."""


PAPER_ROWS = (
    PaperRow("2014", "DWAP", False, 50.10),
    PaperRow("2014", "BTTR", False, 53.96, 66.02, 70.28),
    PaperRow("2014", "CAN", False, 57.26, 74.52, 82.03),
    PaperRow("2014", "PosFormer", False, 60.45, 77.28, 83.68, 87.83),
    PaperRow("2014", "CoMER", True, 59.33, 71.70, 75.66, 77.89, other_tool=True),
    PaperRow("2014", "PosFormer", True, 62.68, 79.01, 84.69, 88.84),
    PaperRow("2016", "DWAP", False, 47.50),
    PaperRow("2016", "BTTR", False, 52.31, 63.90, 68.61),
    PaperRow("2016", "CAN", False, 56.15, 72.71, 80.30),
    PaperRow("2016", "PosFormer", False, 60.94, 76.72, 83.87, 88.06),
    PaperRow("2016", "CoMER", True, 59.81, 74.37, 80.30, 82.56, other_tool=True),
    PaperRow("2016", "PosFormer", True, 61.03, 77.86, 84.74, 89.28),
    PaperRow("2019", "BTTR", False, 52.96, 65.97, 69.14),
    PaperRow("2019", "CAN", False, 55.96, 72.73, 80.57),
    PaperRow("2019", "PosFormer", False, 62.22, 79.40, 86.57, 89.99),
    PaperRow("2019", "CoMER", True, 62.97, 77.40, 81.40, 83.07, other_tool=True),
    PaperRow("2019", "PosFormer", True, 64.97, 82.49, 87.24, 90.16),
    PaperRow("N1", "CoMER", None, 59.73, 77.55, 84.11, 88.91),
    PaperRow("N1", "PosFormer", None, 60.59, 77.97, 84.32, 88.75),
    PaperRow("N2", "CoMER", None, 37.17, 53.95, 65.13, 72.37),
    PaperRow("N2", "PosFormer", None, 38.82, 56.91, 66.12, 73.36),
    PaperRow("N3", "CAN", None, 7.72, 10.52, 12.43, 15.44),
    PaperRow("N3", "CoMER", None, 24.04, 32.31, 36.34, 39.89),
    PaperRow("N3", "PosFormer", None, 34.08, 36.82, 40.30, 43.10),
)

HEADER = ("model", "ExpRate", "≤1", "≤2", "≤3", "CER")
"""What the cells of `table_lines` are."""
_NO_SCALE = "†"
_OTHER_TOOL = "‡"


def rich_tables(
    scores: Scores, *, split: str | None = None, model: str = "this model", used_ink: bool = False
) -> Group:
    """Lay the measures out for a terminal.

    Args:
        scores: What was measured.
        split: The benchmark, such as `2014`: the paper's rows for it are shown beside.
        model: What to call the model.
        used_ink: Whether the model saw the ink of the training set, which the paper's did not.
    """
    main = Table(title=f"{scores.count} expressions", title_justify="left")
    for place, name in enumerate(HEADER):
        main.add_column(name, justify="left" if place == 0 else "right")
    own, *paper = table_lines(scores, split, model)
    main.add_row(*own, style="bold")
    for line in paper:
        main.add_row(*line)
    notes = [Text(remark, style="dim") for remark in remarks(scores, split, used_ink=used_ink)]
    parts = (_rich_rows("nested level", scores.by_level), _rich_rows("tokens", scores.by_length))
    return Group(main, *notes, *parts)


def markdown_table(
    scores: Scores, *, split: str | None = None, model: str = "this model", used_ink: bool = False
) -> str:
    """Write the measures as Markdown; arguments as for `rich_tables`."""
    own, *paper = table_lines(scores, split, model)
    own = tuple(f"**{cell}**" for cell in own)
    blocks = [
        _markdown(HEADER, [own, *paper]),
        "\n".join(f"- {remark}" for remark in remarks(scores, split, used_ink=used_ink)),
        _markdown(("nested level", "count", "ExpRate"), _row_cells(scores.by_level)),
        _markdown(("tokens", "count", "ExpRate"), _row_cells(scores.by_length)),
    ]
    return "\n\n".join(blocks) + "\n"


def remarks(scores: Scores, split: str | None = None, *, used_ink: bool = False) -> list[str]:
    """Say what a reader must know before comparing the rows of a table."""
    low, high = scores.exprate_interval
    own = (
        f"95 % interval of ExpRate: {low:.2f} to {high:.2f}; "
        f"{scores.syntax_validity:.2f} % of the predictions are well-formed LaTeX."
    )
    return [own, *paper_remarks(split, used_ink=used_ink)]


def paper_remarks(split: str | None = None, *, used_ink: bool = False) -> list[str]:
    """Say what keeps our row and the paper's from being measured alike."""
    out: list[str] = []
    rows = _paper_rows(split)
    if used_ink and rows:
        out.append("This model's training also used the ink of the training set; others did not.")
    if rows:
        out.append("The other rows are the paper's; its authors chose checkpoints on CROHME 2014.")
    if any(row.scale_augmentation is False for row in rows):
        out.append(f"{_NO_SCALE} trained without scale augmentation.")
    if any(row.other_tool for row in rows):
        out.append(f"{_OTHER_TOOL} ≤1 to ≤3 come from another tool (lgeval): not comparable.")
    return out


def _paper_rows(split: str | None) -> list[PaperRow]:
    return [row for row in PAPER_ROWS if row.split == split]


def table_lines(
    scores: Scores, split: str | None = None, model: str = "this model"
) -> list[tuple[str, ...]]:
    """Give the cells of the main table: the model's line, then the paper's."""
    measured = (scores.exprate, scores.le1, scores.le2, scores.le3)
    own = (model, *(f"{value:.2f}" for value in measured), f"{scores.cer:.4f}")
    return [own, *(_paper_cells(row) for row in _paper_rows(split))]


def _paper_cells(row: PaperRow) -> tuple[str, ...]:
    name = row.model + (_NO_SCALE if row.scale_augmentation is False else "")
    mark = _OTHER_TOOL if row.other_tool else ""
    tolerant = (
        "-" if value is None else f"{value:.2f}{mark}" for value in (row.le1, row.le2, row.le3)
    )
    return (name, f"{row.exprate:.2f}", *tolerant, "-")


def _row_cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [(range_text(row), str(row.count), f"{row.exprate:.2f}") for row in rows]


def range_text(row: Row) -> str:
    """Spell the levels or lengths of a row."""
    return str(row.first) if row.first == row.last else f"{row.first}–{row.last}"


def _rich_rows(title: str, rows: Sequence[Row]) -> Table:
    table = Table()
    for name in (title, "count", "ExpRate"):
        table.add_column(name, justify="right")
    for cells in _row_cells(rows):
        table.add_row(*cells)
    return table


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *lines))
