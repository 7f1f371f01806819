"""Requests and responses of the API."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from posformer.errors import BudgetError, LatexError
from posformer.latex import convert, draw_forest, encode_forest, normalize, tokenize
from posformer.latex.forest_drawing import forest_records
from posformer.latex.mathml import to_mathml
from posformer.latex.output_formats import FormatName

MAX_LEVEL = 100  # nested level of LaTeX to typeset

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


def _check_unicode(text: str) -> str:
    """Raise an error for lone surrogates: JSON can express them, the response cannot."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("contains a lone surrogate, which is not a character")
    return text


class Latex(_Request):
    """An expression in LaTeX."""

    latex: Annotated[str, AfterValidator(_check_unicode)] = Field(examples=[r"x^2+\frac{1}{2}"])
    format: FormatName | None = Field(None, description="Add the expression in this format.")


class Reading(BaseModel):
    """One hypothesis for the input."""

    latex: str
    confidence: float = Field(description="Probability that every token is correct, 0 to 1.")


class Failure(BaseModel):
    """An error message."""

    error: str
    alternatives: list[Reading] | None = Field(
        None, description="Hypotheses for an input that is not readable, best first."
    )


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


class TokenReading(BaseModel):
    """One token that a symbol may be."""

    token: str
    confidence: float = Field(description="Probability of the token in this place, 0 to 1.")


class SymbolReading(TokenReading):
    """One symbol of a formula."""

    index: int = Field(description="Index of the symbol in `tokens`, from 0.")
    alternatives: list[TokenReading] = Field(
        description="Tokens that may replace it, most likely first."
    )


class FormulaReading(Reading):
    """One formula."""

    alternatives: list[Reading] = Field(description="The next best hypotheses, best first.")
    tokens: list[str] | None = Field(None, description="The tokens, if symbols are requested.")
    symbols: list[SymbolReading] | None = Field(
        None, description="The symbols in reading order, if requested."
    )
    page: int | None = Field(None, description="Page of a document of ink, from 1.")
    box: tuple[float, float, float, float] | None = Field(
        None, description="Left, top, right, bottom on the page, in the unit of the document."
    )


class Answer(FormulaReading):
    """The result of recognition."""

    path: str = Field(description="File name of the upload, or `strokes`.")
    formulas: list[FormulaReading] | None = Field(
        None, description="The formulas one by one, if a document of ink has several."
    )
    mathml: str
    text: str | None = Field(None, description="The result in the requested format.")
    problem: str | None = Field(None, description="Why the format cannot express the result.")
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
    text: str | None = Field(None, description="The expression in the requested format.")
    problem: str | None = Field(
        None, description="What is wrong with the LaTeX, or why the format cannot express it."
    )

    @classmethod
    def of(cls, latex: str, format: str | None = None) -> "Expression":
        """Return the answer for LaTeX that may be malformed."""
        problem = text = None
        try:
            tokens = normalize(latex, reorder_scripts=False)
            forest = encode_forest(tokens)
            text = convert(tokens, format) if format else None
        except LatexError as error:
            problem = str(error)
            forest = encode_forest(tokenize(latex), lenient=True)
        if forest.complexity > MAX_LEVEL:  # identifiers and drawing grow with its square
            raise BudgetError(f"the LaTeX is nested more than {MAX_LEVEL} levels deep")
        return cls(
            latex=latex,
            mathml=to_mathml(latex),
            forest=[ForestToken.model_validate(record) for record in forest_records(forest)],
            trees=draw_forest(forest) if forest.tokens else "",
            text=text,
            problem=problem,
        )


class Health(BaseModel):
    """Status of the server."""

    status: str
    version: str
    waiting: int = Field(description="Number of queued requests.")


class Ready(BaseModel):
    """Whether the server can take requests."""

    ready: bool


class Model(BaseModel):
    """Description of the model."""

    architecture: str
    engine: str
    calibrated: bool = Field(description="Whether confidences are calibrated probabilities.")
    words: list[str] = Field(description="Vocabulary of the model.")
    about: dict[str, Any] = Field(description="Metadata, such as scores.")
