"""Label graphs for LgEval."""

import csv
from pathlib import Path

import pytest

from posformer.data import open_images
from posformer.errors import DataError
from posformer.evaluation import Prediction, label_graph, write_label_graphs
from posformer.latex import is_structure


def relations(latex: str) -> set[tuple[str, str, str]]:
    return {(one.parent, one.label, one.child) for one in label_graph(latex.split())[1]}


def paths(latex: str) -> dict[str, str]:
    return {one.id: one.path for one in label_graph(latex.split())[0]}


def test_a_superscript():
    assert relations("x ^ { 2 }") == {("x_1", "Sup", "2_1")}
    assert paths("x ^ { 2 }") == {"x_1": "O", "2_1": "OSup"}


def test_row_continues_after_scripts():
    assert relations("x _ { i } ^ { 2 } + x") == {
        ("x_1", "Sub", "i_1"),
        ("x_1", "Sup", "2_1"),
        ("x_1", "Right", "+_1"),
        ("+_1", "Right", "x_2"),
    }
    assert paths("x _ { i } ^ { 2 } + x")["x_2"] == "ORR"


def test_fraction_is_its_bar():
    assert relations("\\frac { a b } { 2 } = 1") == {
        ("-_1", "Above", "a_1"),
        ("a_1", "Right", "b_1"),
        ("-_1", "Below", "2_1"),
        ("-_1", "Right", "=_1"),
        ("=_1", "Right", "1_1"),
    }


def test_a_root_has_its_index_above():
    assert relations("\\sqrt [ 3 ] { x + 1 }") == {
        ("\\sqrt_1", "Inside", "x_1"),
        ("x_1", "Right", "+_1"),
        ("+_1", "Right", "1_1"),
        ("\\sqrt_1", "Above", "3_1"),
    }
    assert paths("\\sqrt { x y }")["y_1"] == "OInsideR"


def test_limits_stand_below_and_above():
    assert relations("\\sum \\limits _ { i } ^ { n } i") == {
        ("\\sum_1", "Below", "i_1"),
        ("\\sum_1", "Above", "n_1"),
        ("\\sum_1", "Right", "i_2"),
    }


def test_script_of_a_group_belongs_to_its_last_symbol():
    assert relations("{ x + y } ^ { 2 }") >= {("y_1", "Sup", "2_1")}


def test_a_script_without_a_base_gets_one_without_a_label():
    assert relations("^ { 2 } C") == {("__1", "Sup", "2_1"), ("__1", "Right", "C_1")}


def test_groups_of_other_commands_are_inside_or_above_and_below():
    assert relations("\\hat { x } ^ { 2 } y") == {
        ("\\hat_1", "Inside", "x_1"),
        ("\\hat_1", "Sup", "2_1"),
        ("\\hat_1", "Right", "y_1"),
    }
    assert relations("\\binom { n } { k }") == {
        ("\\binom_1", "Above", "n_1"),
        ("\\binom_1", "Below", "k_1"),
    }


def test_lines_and_cells_lead_to_the_next():
    assert relations("a & b \\\\ & c") == {
        ("*M_1", "Inside", "*R_1"),
        ("*R_1", "Inside", "*Cell_1"),
        ("*Cell_1", "Inside", "a_1"),
        ("*Cell_1", "NcellR", "*Cell_2"),
        ("*Cell_2", "Inside", "b_1"),
        ("*R_1", "Nrow", "*R_2"),
        ("*R_2", "Inside", "*Cell_3"),
        ("*Cell_3", "NcellR", "*Cell_4"),
        ("*Cell_4", "Inside", "c_1"),
    }


def test_files_are_what_lgeval_reads(tmp_path):
    written = [Prediction("set/a 1", ("x", "<", ",", "2"), ("x", "^", "{", "2", "}"))]
    truth, prediction = write_label_graphs(tmp_path / "graphs", written)
    assert (prediction / "set_a_1.lg").read_text() == (
        "# set/a 1\n"
        "# Objects(2):\n"
        "O, x_1, x, 1.0, O\n"
        "O, 2_1, 2, 1.0, OSup\n"
        "\n"
        "# Relations(1):\n"
        "R, x_1, 2_1, Sup, 1.0\n"
    )
    rows = list(csv.reader((truth / "set_a_1.lg").read_text().splitlines()))
    objects = [[cell.strip() for cell in row] for row in rows if row and row[0] == "O"]
    assert [(row[2], row[4]) for row in objects] == [
        ("x", "O"), ("\\lt", "OR"), ("COMMA", "ORR"), ("2", "ORRR"),
    ]  # fmt: skip


def test_invalid_prediction_has_no_objects(tmp_path):
    _, prediction = write_label_graphs(tmp_path, [Prediction("a", ("x",), ("x", "^", "{"))])
    text = (prediction / "a.lg").read_text()
    assert "not an expression" in text
    assert all(line.startswith("#") for line in text.splitlines())


@pytest.mark.parametrize(
    ("predictions", "complaint"),
    [
        ([Prediction("a", ("{",), ("x",))], "a: the truth has no label graph"),
        ([Prediction("a/b", ("x",), ()), Prediction("a b", ("x",), ())], "a b: another"),
    ],
)
def test_errors_name_the_expression(tmp_path, predictions, complaint):
    with pytest.raises(DataError, match=complaint):
        write_label_graphs(tmp_path, predictions)


def test_graphs_of_crohme_are_trees_with_unique_paths(
    crohme_zip: Path,
):
    for example in open_images(crohme_zip, "2014"):
        objects, links = label_graph(example.tokens)
        with_ink = sum(not is_structure(token) for token in example.tokens)
        brackets = 2 * " ".join(example.tokens).count("\\sqrt [")
        assert len(objects) == with_ink - brackets, example.name
        assert len({one.path for one in objects}) == len(objects) == len(links) + 1
        assert len({link.child for link in links}) == len(links)
