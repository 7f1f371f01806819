"""Text for programs and terminals, whatever the names of files contain."""

import json
import re
from typing import Any

# Control characters, and the two line breaks of Unicode.
_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]")


def one_line(text: str) -> str:
    """Return text with tabs, line breaks and other control characters escaped."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_text(value: Any, indent: int | None = None) -> str:
    """Return JSON that can be encoded as UTF-8.

    Lone surrogates, which stand for bytes of file names that are not valid text, are escaped.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
