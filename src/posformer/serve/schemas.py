"""What the interface takes in and gives out."""

import base64
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from posformer.errors import LatexError
from posformer.latex import draw_forest, encode_forest, normalize, tokenize
from posformer.latex.forest_drawing import forest_records
from posformer.recognizer import Recognition
from posformer.serve.explanation import Line
from posformer.serve.typesetting import typeset

__all__ = ["Answer", "Expression", "Failure", "Health", "Latex", "Model", "Strokes"]

Coordinate = Annotated[float, Field(allow_inf_nan=False)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=8)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Strokes(_Given):
    """Ink: strokes of points, y down, in any unit."""

    strokes: list[list[Point]] = Field(
        description="Each point has x and y; numbers behind them, such as pressure, are ignored.",
        examples=[[[[10, 10], [40, 50]], [[40, 10], [10, 50]]]],
    )


class Latex(_Given):
    """An expression in LaTeX."""

    latex: str = Field(examples=[r"x^2+\frac{1}{2}"])


class Failure(BaseModel):
    """What went wrong, in words."""

    error: str


class Reading(BaseModel):
    """One way to read what is written."""

    latex: str
    confidence: float = Field(description="Chance that it is right in every token, 0 to 1.")


class Look(BaseModel):
    """Where the model looked for one token."""

    token: str
    map: list[int] = Field(description="0 to 255 for each cell, row after row.")


class Explanation(BaseModel):
    """A formula as the model saw it."""

    picture: str = Field(description="PNG in Base64, white ink on black.")
    rows: int
    columns: int
    symbols: list[Look]

    @classmethod
    def of(cls, line: Line) -> "Explanation":
        """A line in values of JSON."""
        _, png = cv2.imencode(".png", line.image)
        maps = np.rint(line.maps * 255).astype(int)
        symbols = [
            Look(token=token, map=cells.ravel().tolist())
            for token, cells in zip(line.tokens, maps, strict=True)
        ]
        rows, columns = maps.shape[1:]
        image = base64.b64encode(png.tobytes()).decode()
        return cls(picture=image, rows=rows, columns=columns, symbols=symbols)


class Answer(Reading):
    """What is written."""

    path: str = Field(description="What the request called it.")
    alternatives: list[Reading] = Field(description="The next best readings, best first.")
    mathml: str
    milliseconds: float = Field(description="From request to answer, waiting included.")
    unsure: bool = Field(description="Whether the reading is more likely wrong than right.")
    explanation: list[Explanation] | None = Field(
        None, description="Formula by formula, where the model looked; only if asked for."
    )

    @classmethod
    def of(
        cls,
        path: str,
        recognition: Recognition,
        lines: tuple[Line, ...] | None,
        milliseconds: float,
    ) -> "Answer":
        """An answer in values of JSON."""
        return cls(
            path=path,
            **recognition.to_dict(),
            mathml=recognition.mathml,
            milliseconds=round(milliseconds, 1),
            unsure=recognition.is_unsure,
            explanation=None if lines is None else [Explanation.of(line) for line in lines],
        )


class Place(BaseModel):
    """Where a token stands in the position forest."""

    token: str
    identifier: str
    level: int
    position: str


class Expression(BaseModel):
    """An expression, typeset and taken apart."""

    latex: str
    mathml: str
    forest: list[Place]
    trees: str = Field(description="The position forest drawn as text.")
    problem: str | None = Field(None, description="What is wrong with the LaTeX, in words.")

    @classmethod
    def of(cls, latex: str) -> "Expression":
        """What there is to tell of LaTeX that somebody typed."""
        problem = None
        try:
            forest = encode_forest(normalize(latex, reorder_scripts=False))
        except LatexError as error:
            problem = str(error)
            forest = encode_forest(tokenize(latex), lenient=True)
        return cls(
            latex=latex,
            mathml=typeset(latex),
            forest=[Place.model_validate(record) for record in forest_records(forest)],
            trees=draw_forest(forest) if forest.tokens else "",
            problem=problem,
        )


class Health(BaseModel):
    """Whether the server works, and how busy it is."""

    status: str
    version: str
    waiting: int = Field(description="Requests that no worker has taken yet.")


class Model(BaseModel):
    """What reads."""

    architecture: str
    engine: str
    calibrated: bool = Field(description="Whether confidences are chances, or only a rank.")
    words: list[str] = Field(description="All tokens that it can write.")
    about: dict[str, Any] = Field(description="What is known of it, such as scores.")
