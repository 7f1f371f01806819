"""Alignment of strokes with tokens."""

import zipfile
from pathlib import Path, PurePosixPath

import numpy as np

from posformer.ink import AlignedInk, align, inked_places, read_inkml
from writing import fraction_ink, inkml


def strokes_by_token(ink: AlignedInk) -> list[tuple[str, tuple[int, ...]]]:
    return [pair for pair in zip(ink.tokens, ink.alignment, strict=True) if pair[1]]


def test_ids_distinguish_repeated_symbols() -> None:
    ink = align(
        read_inkml(fraction_ink(), "one"), ["\\frac", "{", "1", "}", "{", "x", "+", "1", "}"]
    )
    assert strokes_by_token(ink) == [
        ("\\frac", (1,)),
        ("1", (0,)),
        ("x", (2, 3)),
        ("+", (4, 5)),
        ("1", (6,)),
    ]


def test_strokes_are_scaled_to_pixels() -> None:
    ink = align(read_inkml(fraction_ink(), "one"), ["x"])
    points = np.concatenate(ink.strokes)
    assert points.dtype == np.float32
    assert (np.floor(points.min(axis=0)) == 0).all()


def test_without_mathml_labels_are_matched_from_left_to_right() -> None:
    data = inkml(
        {"b": "50 0, 50 9", "a": "0 0, 0 9", "x": "20 0, 30 9"},
        groups=[("1", ["b"], ""), ("1", ["a"], ""), ("x", ["x"], "")],
    )
    ink = align(read_inkml(data), ["1", "x", "1"])
    assert ink.alignment == ((1,), (2,), (0,))


def test_a_function_name_may_be_one_group_or_letters() -> None:
    traces = {"0": "0 0, 0 9", "1": "10 0, 10 9", "2": "20 0, 20 9", "3": "40 0, 40 9"}
    one = inkml(traces, groups=[("\\sin", ["0", "1", "2"], "s"), ("x", ["3"], "x")])
    letters = inkml(
        traces, groups=[("s", ["0"], ""), ("i", ["1"], ""), ("n", ["2"], ""), ("x", ["3"], "")]
    )
    for data in (one, letters):
        assert align(read_inkml(data), ["\\sin", "x"]).alignment == ((0, 1, 2), (3,))


def test_three_dots_in_three_groups_write_one_token() -> None:
    traces = {str(place): f"{10 * place} 0" for place in range(3)}
    data = inkml(traces, groups=[(".", [key], "") for key in traces])
    assert align(read_inkml(data), ["\\ldots"]).alignment == ((0, 1, 2),)


def test_look_alike_label_is_matched_last() -> None:
    data = inkml({"0": "0 0, 9 0"}, groups=[("-", ["0"], "")])
    assert align(read_inkml(data), ["\\frac", "{", "}", "{", "}"]).alignment[0] == (0,)


def test_token_without_a_label_is_not_aligned() -> None:
    data = inkml({"0": "0 0, 9 0", "1": "20 0, 20 9"}, groups=[("x", ["0"], "")])
    assert align(read_inkml(data), ["x", "y"]).alignment == ((0,), ())


def test_structure_and_the_brackets_of_a_root_have_no_ink() -> None:
    tokens = ["[", "x", "^", "{", "2", "}", "]", "\\sqrt", "[", "3", "]", "{", "y", "}"]
    assert [tokens[place] for place in inked_places(tokens)] == [
        "[", "x", "2", "]", "\\sqrt", "3", "y",
    ]  # fmt: skip


def test_nearly_all_tokens_of_crohme_are_aligned(crohme_zip: Path, crohme_ink_zip: Path) -> None:
    with zipfile.ZipFile(crohme_zip) as images, zipfile.ZipFile(crohme_ink_zip) as inks:
        lines = images.read("data/train/caption.txt").decode().splitlines()
        captions = {line.split()[0]: tuple(line.split()[1:]) for line in lines}
        files = {PurePosixPath(name).stem: name for name in inks.namelist()}
        found = []
        for name in sorted(captions)[::40]:
            ink = align(read_inkml(inks.read(files[name]), name), captions[name])
            found += [bool(ink.alignment[place]) for place in inked_places(ink.tokens)]
    assert sum(found) / len(found) > 0.995
