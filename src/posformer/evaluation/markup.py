"""HTML and SVG put together from elements; what is not markup is escaped."""

import html
from collections.abc import Iterable

__all__ = ["Markup", "element", "joined"]

_WITHOUT_END = frozenset({"br", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is markup already; any other text is escaped before it becomes part of a page."""

    __slots__ = ()


def element(name: str, /, *content: str, **attributes: object) -> Markup:
    """An element with its content.

    Args:
        name: Of the element.
        content: Text, or markup.
        attributes: `class_` is `class`, `stroke_width` is `stroke-width`. Those that are None or
            False are left out; True gives the name alone.
    """
    opening = "".join([f"<{name}", *map(_attribute, attributes.items()), ">"])
    if name in _WITHOUT_END:
        return Markup(opening)
    return Markup(f"{opening}{joined(content)}</{name}>")


def joined(content: Iterable[str]) -> Markup:
    """Parts of a page, one behind the other."""
    return Markup("".join(one if isinstance(one, Markup) else html.escape(one) for one in content))


def _attribute(item: tuple[str, object]) -> str:
    name, value = item[0].rstrip("_").replace("_", "-"), item[1]
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
