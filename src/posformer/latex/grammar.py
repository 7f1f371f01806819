"""Which commands take arguments, and on which side of the position forest these stand."""

from dataclasses import dataclass

UPPER, LOWER, MAIN = "L", "R", "M"


@dataclass(frozen=True)
class Substructure:
    """A command or operator whose arguments are branches of the position forest."""

    own: str  # the branch of the command itself
    arguments: str  # the branches of its arguments, in order
    option: str = ""  # the branch of an optional `[ … ]` before them; "" when there is none


_OVER_UNDER = Substructure(own=UPPER, arguments=UPPER + LOWER)

SUBSTRUCTURES: dict[str, Substructure] = {
    "^": Substructure(own=UPPER, arguments=UPPER),
    "_": Substructure(own=LOWER, arguments=LOWER),
    r"\sqrt": Substructure(own=LOWER, arguments=LOWER, option=UPPER),
    r"\underset": Substructure(own=LOWER, arguments=LOWER + UPPER),
    **dict.fromkeys(
        (r"\frac", r"\dfrac", r"\tfrac", r"\cfrac", r"\binom", r"\dbinom", r"\tbinom"),
        _OVER_UNDER,
    ),
    **dict.fromkeys((r"\stackrel", r"\overset"), _OVER_UNDER),
}
