"""LaTeX that somebody typed as MathML that is nothing but MathML."""

import html
import re
from xml.etree.ElementTree import ParseError

import defusedxml.ElementTree as SafeXml
from defusedxml.common import DefusedXmlException

from posformer.recognizer import Recognition

__all__ = ["typeset"]

_MATHML = "{http://www.w3.org/1998/Math/MathML}"
_ELEMENTS = re.compile(
    "math|merror|mfenced|mfrac|mi|mn|mo|mover|mpadded|mphantom|mmultiscripts|mprescripts|mroot|mrow"
    "|ms|mspace|msqrt|mstyle|msub|msubsup|msup|mtable|mtd|mtext|mtr|munder|munderover|menclose|none"
)
_UNSAFE_ATTRIBUTES = ("href", "on", "src", "style", "action", "class", "id")
# The converter copies these as they are into text; no font has these characters.
_HIDDEN = {"<": "\ue000", ">": "\ue001", "&": "\ue002"}


def typeset(latex: str) -> str:
    r"""MathML of an expression; an `merror` with its text where it makes no sense.

    What would be markup in the LaTeX, such as in `\text{<b>}`, is text in the MathML.
    """
    mathml = _convert(latex)
    if _is_plain(mathml):
        return mathml
    mathml = _convert("".join(_HIDDEN.get(sign, sign) for sign in latex))
    for character, hidden in _HIDDEN.items():
        mathml = mathml.replace(hidden, html.escape(character))
    return mathml if _is_plain(mathml) else _as_text(latex)


def _convert(latex: str) -> str:
    # A reading knows how to become MathML, also where the converter fails.
    return Recognition(latex, 1.0, ()).mathml


def _is_plain(mathml: str) -> bool:
    """Whether it is well formed, and of presentation MathML alone."""
    try:
        root = SafeXml.fromstring(mathml, forbid_dtd=True)
    except (DefusedXmlException, ParseError, ValueError):
        return False
    return all(
        _ELEMENTS.fullmatch(str(element.tag).removeprefix(_MATHML))
        and not any(name.lower().startswith(_UNSAFE_ATTRIBUTES) for name in element.attrib)
        for element in root.iter()
    )


def _as_text(latex: str) -> str:
    text = html.escape("".join(sign for sign in latex if sign.isprintable() or sign == " "))
    return (
        '<math xmlns="http://www.w3.org/1998/Math/MathML">'
        f"<merror><mtext>{text}</mtext></merror></math>"
    )
