"""The page that shows an explanation: plain HTML beside the images it shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from posformer.explain.attention_maps import Looking
from posformer.latex import is_structure

__all__ = ["Section", "page"]


@dataclass(frozen=True)
class Section:
    """One formula of the image."""

    place: str  # of its files, in front of their names; "" or such as "formula-2/"
    lookings: tuple[Looking, ...]  # of one or two models, while they write the same tokens
    readings: tuple[str, ...]  # the LaTeX that each of them reads by itself
    written: str  # the LaTeX that they were made to write
    sheets: tuple[str, ...]  # an image for each token; none if no model tells where it looked
    overviews: tuple[str | None, ...]  # for each model; None if it does not tell
    animation: str | None
    numbers: tuple[str, ...]


def page(title: str, sections: Sequence[Section], notes: Sequence[str]) -> str:
    """The whole page.

    Args:
        title: What was read.
        sections: The formulas in it.
        notes: What could not be shown, and why.
    """
    body = [f'<p class="note">{escape(note)}</p>' for note in notes]
    for number, section in enumerate(sections, start=1):
        if len(sections) > 1:
            body.append(f"<h2>Formula {number}</h2>")
        body.append(_section(section, f"symbol-{number}"))
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(title=escape(title), sections="\n".join(body))


def _section(section: Section, name: str) -> str:
    parts = [_image(f"{section.place}image.png", "the image as the model sees it")]
    parts.append(f"<p>Written here: <code>{escape(section.written)}</code>")
    for looking, reading in zip(section.lookings, section.readings, strict=True):
        parts.append(f"<br>{escape(looking.model)} reads: <code>{escape(reading)}</code>")
    if section.animation:
        parts += ["<h2>Symbol by symbol</h2>", _image(section.animation, "where the model looked")]
    if section.sheets:
        parts += ["<h2>All layers</h2>", _strip(section, name)]
        parts.append(f'<img id="{name}" alt="">')
    for looking, overview in zip(section.lookings, section.overviews, strict=True):
        if overview is not None:
            parts.append(f"<h2>All symbols: {escape(looking.model)}</h2>")
            parts.append(_image(overview, "all symbols and layers"))
    parts += ["<h2>Numbers</h2>", *(_table(looking) for looking in section.lookings)]
    links = (f'<a href="{escape(file)}">{escape(file)}</a>' for file in section.numbers)
    parts.append(f'<p class="quiet">All attention weights, head by head: {", ".join(links)}')
    return "\n".join(parts)


def _image(source: str, alt: str) -> str:
    return f'<img src="{escape(source)}" alt="{escape(alt)}">'


def _strip(section: Section, shows: str) -> str:
    """A button for each token, that shows its image."""
    first = section.lookings[0]
    buttons = [
        f'<button data-sheet="{escape(sheet)}" class="{_kinds(first, number)}">'
        f"{escape(token)}</button>"
        for number, (token, sheet) in enumerate(zip(first.tokens, section.sheets, strict=True))
    ]
    return f'<div class="strip" data-shows="{shows}">{"".join(buttons)}</div>'


def _kinds(looking: Looking, place: int) -> str:
    """Classes of a button: dashed without ink, red where the model would write something else."""
    token = looking.tokens[place]
    other = "other" if looking.preferred[place] != token else ""
    return f"{'structure' if is_structure(token) else ''} {other}".strip()


def _table(looking: Looking) -> str:
    rows = []
    for number, token in enumerate(looking.tokens):
        rather = looking.preferred[number]
        other = "" if rather == token else f"would write <code>{escape(rather or 'the end')}</code>"
        left_out = "not counted as coverage" if looking.left_out[number] else ""
        rows.append(
            f"<tr><td><code>{escape(token)}</code>"
            f'<td class="number">{looking.probability[number]:.3f}'
            f'<td class="wrong">{other}<td class="quiet">{left_out}'
        )
    name, head = escape(looking.model), "<tr><th>token<th>probability<th><th>"
    table = f"<table>{head}{''.join(rows)}</table>"
    return f"<details open><summary>{name}</summary>{table}</details>"
