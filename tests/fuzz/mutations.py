"""Mutations of valid inputs. All of them depend on the random generator only."""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

_EXTREME_INTEGERS = (0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1)
_EXTREME_NUMBERS = (
    *("0", "-1", "1e-320", "1e9", "-1e9", "1e38", "1e308", "1e999", "-1e999", "nan", "inf", "NaN"),
    *("Infinity", "2147483648", "99999999999999999999", "00000000", "0x10", "1_0", "1,5", "+-3"),
    *(".", "-", "²", "9" * 5000),
)
_EXTREME_TEXTS = ("", "\0", "\ud800", "�", "\u202e", "../../etc/passwd", "%s%n", "a" * 5000)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_MOST_BYTES = 300_000  # of a result; more bytes would test the disk


def mutate_bytes(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Apply one to eight mutations to the bytes of a file.

    Args:
        content: The file.
        others: Files to take parts from.
        random: Source of randomness.
    """
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        content = random.choice(_BYTE_MUTATIONS)(content, others, random)[:_MOST_BYTES]
    return content


def mutate_text(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Apply one to four mutations to a text of tags, words and numbers."""
    for _ in range(random.choice((1, 1, 2, 4))):
        # Most changes of single bytes would be refused by the parser.
        kinds = _TEXT_MUTATIONS if random.random() < 0.85 else _BYTE_MUTATIONS
        content = random.choice(kinds)(content, others, random)[:_MOST_BYTES]
    return content


def mutate_json(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Change values in a JSON document; a quarter of the time, its text."""
    if random.random() < 0.25:
        return mutate_text(content, others, random)
    value = json.loads(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        value = _mutate_value(value, random)
    text = json.dumps(value)
    if random.random() < 0.05:
        depth = random.choice((500, 5_000, 100_000))
        text = text.replace("null", "[" * depth + "]" * depth, 1) if "null" in text else "[" * depth
    return text.encode("utf-8", "surrogatepass")


def _mutate_value(value: Any, random: Random) -> Any:
    """Replace, delete or repeat one part of a JSON value, at any depth."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        changed = dict(value)
        if random.random() < 0.15:
            del changed[key]
        elif random.random() < 0.1:
            changed[random.choice(_EXTREME_TEXTS)] = changed.pop(key)
        else:
            changed[key] = _mutate_value(value[key], random)
        return changed
    if isinstance(value, list) and value and random.random() < 0.85:
        place = random.randrange(len(value))
        part = value[place]
        how = random.randrange(4)
        new = [[], [part] * random.choice((2, 50, 1000)), [value], [_mutate_value(part, random)]]
        return [*value[:place], *new[how], *value[place + 1 :]]
    return _extreme_value(random)


def _extreme_value(random: Random) -> Any:
    numbers = (0, -1, 1, 3.5, 1e308, -1e308, float("nan"), float("inf"), 2**63, 10**400)
    values = (None, True, False, [], {}, [[]], {"a": {}}, *numbers, *_EXTREME_TEXTS)
    return random.choice(values)


def _flip(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(random.choice((1, 1, 4, 30))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _set_integer(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Write an extreme integer where a size or an offset may be: mostly near the beginning."""
    size = random.choice((2, 4, 8))
    value = random.choice(_EXTREME_INTEGERS) % 2 ** (8 * size)
    reach = min(len(content), random.choice((64, 64, 512, 10**9)))
    place = random.randrange(max(1, reach - size))
    order = random.choice(("big", "little"))
    return content[:place] + value.to_bytes(size, order) + content[place + size :]


def _truncate(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _delete(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:start] + content[end:]


def _insert(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.randbytes(random.choice((1, 4, 100))) + content[place:]


def _repeat(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    start, end = _range(content, random)
    return content[:end] + content[start:end] * random.choice((1, 10, 1000)) + content[end:]


def _splice(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(others)
    start, end = _range(other, random)
    place = random.randrange(len(content) + 1)
    return content[:place] + other[start:end] + content[place + end - start :]


def _range(content: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content) + 1)
    return start, min(len(content), start + random.choice((1, 8, 64, 1000)))


def _change_number(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    found = list(_NUMBER.finditer(content))
    if not found:
        return _flip(content, others, random)
    number = random.choice(found)
    new = random.choice(_EXTREME_NUMBERS).encode()
    return content[: number.start()] + new + content[number.end() :]


def _move_line(content: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Delete, repeat or move a piece between tags or line breaks."""
    pieces = re.split(rb"(?<=[>\n,{}\[\]])", content)
    place = random.randrange(len(pieces))
    piece = pieces.pop(place) if random.random() < 0.7 else pieces[place]
    to = random.randrange(len(pieces) + 1)
    pieces[to:to] = [piece] * random.choice((0, 1, 2, 100, 3000))
    return b"".join(pieces)


_BYTE_MUTATIONS: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    _flip,
    _flip,
    _set_integer,
    _set_integer,
    _truncate,
    _delete,
    _insert,
    _repeat,
    _splice,
)
_TEXT_MUTATIONS = (_change_number, _change_number, _move_line)
