"""A little InkML for the tests, so that they need no data set."""

from collections.abc import Mapping, Sequence

import numpy as np

from posformer.ink import AlignedInk


def inkml(
    traces: Mapping[str, str],
    *,
    groups: Sequence[tuple[str, Sequence[str], str]] = (),
    truth: str | None = None,
    math: str | None = None,
    head: str = "",
) -> bytes:
    """InkML text; groups are label, trace ids and the id of a MathML element."""
    parts = ['<ink xmlns="http://www.w3.org/2003/InkML">', head]
    if truth is not None:
        parts.append(f'<annotation type="truth">{truth}</annotation>')
    if math is not None:
        parts.append(
            '<annotationXML type="truth"><math xmlns="http://www.w3.org/1998/Math/MathML">'
            f"{math}</math></annotationXML>"
        )
    parts += [f'<trace id="{key}">{points}</trace>' for key, points in traces.items()]
    parts.append("<traceGroup>")
    for label, members, target in groups:
        views = "".join(f'<traceView traceDataRef="{member}"/>' for member in members)
        parts.append(
            f'<traceGroup><annotation type="truth">{label}</annotation>{views}'
            f'<annotationXML href="{target}"/></traceGroup>'
        )
    parts.append("</traceGroup></ink>")
    return "".join(parts).encode()


def fraction_ink() -> bytes:
    """One over x plus one, where the two ones differ only by their ids."""
    return inkml(
        {
            "n": "50 0, 50 20",
            "bar": "10 30, 90 31",
            "x1": "10 40, 30 60",
            "x2": "30 40, 10 60",
            "h": "45 50, 60 50",
            "v": "52 43, 52 57",
            "d": "80 40, 80 60",
        },
        groups=[
            ("1", ["d"], "1_2"),
            ("-", ["bar"], "f_1"),
            ("+", ["h", "v"], "+_1"),
            ("1", ["n"], "1_1"),
            ("x", ["x1", "x2"], "x_1"),
        ],
        truth="$\\frac{1}{x+1}$",
        math='<mfrac xml:id="f_1"><mn xml:id="1_1">1</mn><mrow><mi xml:id="x_1">x</mi>'
        '<mo xml:id="+_1">+</mo><mn xml:id="1_2">1</mn></mrow></mfrac>',
    )


def stroke(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points, np.float32)


def aligned(tokens: str, name: str = "made", writer: str = "hand") -> AlignedInk:
    """Aligned ink with one slanted stroke for every token that is not structure.

    Scripts are smaller and higher or lower; it is enough like writing for sizes to make sense.
    """
    strokes: list[np.ndarray] = []
    alignment: list[tuple[int, ...]] = []
    x, level = 0.0, 0
    for token in tokens.split():
        if token in ("^", "_", "{", "}"):
            level += {"^": 1, "}": -1 if level > 0 else 0}.get(token, 0)
            alignment.append(())
            continue
        size = 24.0 * 0.7**level
        top = -14.0 * level
        strokes.append(stroke((x, top), (x + size / 2, top + size / 2), (x + size, top + size)))
        alignment.append((len(strokes) - 1,))
        x += size + 6
    return AlignedInk(name, tuple(tokens.split()), tuple(strokes), tuple(alignment), writer)
