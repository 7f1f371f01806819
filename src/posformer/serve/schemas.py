"""What the interface takes in and gives out."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from posformer.errors import LatexError
from posformer.latex import draw_forest, encode_forest, normalize, tokenize
from posformer.latex.forest_drawing import forest_records
from posformer.latex.mathml import to_mathml
from posformer.recognizer import Recognition

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


class TokenAttention(BaseModel):
    """The attention map of one token."""

    token: str
    map: list[int] = Field(description="Weight of each cell, 0 to 255, row by row.")


class Explanation(BaseModel):
    """The attention maps of one formula."""

    picture: str = Field(description="Input image of the model: PNG in Base64, white ink on black.")
    rows: int = Field(description="Height of the maps.")
    columns: int = Field(description="Width of the maps.")
    symbols: list[TokenAttention]


class Answer(Reading):
    """What is written."""

    path: str = Field(description="What the request called it.")
    alternatives: list[Reading] = Field(description="The next best readings, best first.")
    mathml: str
    milliseconds: float = Field(description="From request to answer, waiting included.")
    unsure: bool = Field(description="Whether the reading is more likely wrong than right.")
    explanation: list[Explanation] | None = Field(
        None, description="Attention maps of each formula, if requested."
    )

    @classmethod
    def of(
        cls,
        path: str,
        recognition: Recognition,
        explanation: tuple[Explanation, ...] | None,
        milliseconds: float,
    ) -> "Answer":
        """An answer in values of JSON."""
        return cls(
            path=path,
            **recognition.to_dict(),
            mathml=recognition.mathml,
            milliseconds=round(milliseconds, 1),
            unsure=recognition.is_unsure,
            explanation=None if explanation is None else list(explanation),
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
            mathml=to_mathml(latex),
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
