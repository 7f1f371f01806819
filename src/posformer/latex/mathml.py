"""LaTeX as presentation MathML."""

import html
import re
from xml.etree.ElementTree import ParseError

import defusedxml.ElementTree as SafeXml
from defusedxml.common import DefusedXmlException

from posformer.latex.unicode_text import to_unicode

_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
_ELEMENTS = re.compile(
    "math|merror|mfenced|mfrac|mi|mn|mo|mover|mpadded|mphantom|mmultiscripts|mprescripts|mroot|mrow"
    "|ms|mspace|msqrt|mstyle|msub|msubsup|msup|mtable|mtd|mtext|mtr|munder|munderover|menclose|none"
)
_UNSAFE_ATTRIBUTES = ("href", "on", "src", "style", "action", "class", "id")
# The converter copies markup into text unescaped; no font has these private characters.
_HIDDEN = {"<": "\ue000", ">": "\ue001", "&": "\ue002"}
# Commands that the converter does not know.
_UNKNOWN = re.compile(r"\\(arg|copyright|overarc)(?![A-Za-z])|\\textcircled\s*\{(.)\}")
_KNOWN = {"arg": r"\operatorname{arg}", "copyright": "©", "overarc": r"\overparen"}
# The converter aligns arrays, but not these environments.
_LINES = re.compile(r"\\(begin|end)\{(?:(aligned|align|split)|gathered|gather)\*?\}")


def to_mathml(latex: str, display: bool = False) -> str:
    r"""Convert LaTeX to presentation MathML.

    The result is well-formed and has no elements and attributes but those of presentation MathML,
    whatever the LaTeX is: markup in it, as in `\text{<b>}`, becomes text.

    Args:
        latex: LaTeX of a formula.
        display: Set it as a block of its own instead of inline.

    Returns:
        A `math` element; one with an `merror` that holds the LaTeX if it cannot be converted.
    """
    mathml = _convert(latex, display)
    if _is_presentation(mathml):
        return mathml
    mathml = _convert("".join(_HIDDEN.get(character, character) for character in latex), display)
    for character, hidden in _HIDDEN.items():
        mathml = mathml.replace(hidden, html.escape(character))
    return mathml if _is_presentation(mathml) else _as_error(latex)


def _convert(latex: str, display: bool) -> str:
    from latex2mathml.converter import convert

    latex = _UNKNOWN.sub(_as_known, _LINES.sub(_as_array, latex))
    try:
        return str(convert(latex, display="block" if display else "inline"))
    except Exception:  # unbalanced LaTeX raises anything at all
        return ""


def _as_known(command: re.Match[str]) -> str:
    return _KNOWN[command[1]] if command[1] else to_unicode([r"\textcircled", "{", command[2], "}"])


def _as_array(environment: re.Match[str]) -> str:
    if environment[1] == "end":
        return r"\end{array}"
    return rf"\begin{{array}}{{{'rl' * 10 if environment[2] else 'c'}}}"


def _is_presentation(mathml: str) -> bool:
    """Whether a text is well-formed and of presentation MathML alone."""
    try:
        root = SafeXml.fromstring(mathml, forbid_dtd=True)
    except (DefusedXmlException, ParseError, ValueError):
        return False
    return all(
        _ELEMENTS.fullmatch(str(element.tag).removeprefix(f"{{{_NAMESPACE}}}"))
        and not any(name.lower().startswith(_UNSAFE_ATTRIBUTES) for name in element.attrib)
        for element in root.iter()
    )


def _as_error(latex: str) -> str:
    printable = "".join(sign for sign in latex if sign.isprintable() or sign == " ")
    text = html.escape(printable)
    return f'<math xmlns="{_NAMESPACE}"><merror><mtext>{text}</mtext></merror></math>'
