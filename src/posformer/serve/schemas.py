"""Requests and responses of the API."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from posformer.errors import LatexError
from posformer.latex import draw_forest, encode_forest, normalize, tokenize
from posformer.latex.forest_drawing import forest_records
from posformer.latex.mathml import to_mathml

Coordinate = Annotated[float, Field(allow_inf_nan=False)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=8)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Strokes(_Request):
    """Pen strokes: lists of points, y down, in any unit."""

    strokes: list[list[Point]] = Field(
        description="Each point has x and y; further numbers, such as pressure, are ignored.",
        examples=[[[[10, 10], [40, 50]], [[40, 10], [10, 50]]]],
    )


class Latex(_Request):
    """An expression in LaTeX."""

    latex: str = Field(examples=[r"x^2+\frac{1}{2}"])


class Failure(BaseModel):
    """An error message."""

    error: str


class Reading(BaseModel):
    """One hypothesis for the input."""

    latex: str
    confidence: float = Field(description="Probability that every token is correct, 0 to 1.")


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
    """The result of recognition."""

    path: str = Field(description="File name of the upload, or `strokes`.")
    alternatives: list[Reading] = Field(description="The next best hypotheses, best first.")
    mathml: str
    milliseconds: float = Field(description="Time from request to answer, waiting included.")
    unsure: bool = Field(description="Whether the result is more likely wrong than right.")
    explanation: list[Explanation] | None = Field(
        None, description="Attention maps of each formula, if requested."
    )


class ForestToken(BaseModel):
    """The position of a token in the position forest."""

    token: str
    identifier: str
    level: int
    position: str


class Expression(BaseModel):
    """An expression as MathML and as a position forest."""

    latex: str
    mathml: str
    forest: list[ForestToken]
    trees: str = Field(description="The position forest as text.")
    problem: str | None = Field(None, description="What is wrong with the LaTeX.")

    @classmethod
    def of(cls, latex: str) -> "Expression":
        """Return the answer for LaTeX that may be malformed."""
        problem = None
        try:
            forest = encode_forest(normalize(latex, reorder_scripts=False))
        except LatexError as error:
            problem = str(error)
            forest = encode_forest(tokenize(latex), lenient=True)
        return cls(
            latex=latex,
            mathml=to_mathml(latex),
            forest=[ForestToken.model_validate(record) for record in forest_records(forest)],
            trees=draw_forest(forest) if forest.tokens else "",
            problem=problem,
        )


class Health(BaseModel):
    """Status of the server."""

    status: str
    version: str
    waiting: int = Field(description="Number of queued requests.")


class Model(BaseModel):
    """Description of the model."""

    architecture: str
    engine: str
    calibrated: bool = Field(description="Whether confidences are calibrated probabilities.")
    words: list[str] = Field(description="Vocabulary of the model.")
    about: dict[str, Any] = Field(description="Metadata, such as scores.")
