"""The command `posformer forest`."""

import io
import json
import sys

import pytest

from posformer.cli import main


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["posformer", "forest", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_trees_are_drawn(run) -> None:
    code, out, err = run(r"\frac{y^{\beta_1}_2 B}{C}")
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [r"M  \frac", "├─ L  y", r"│  ├─ L  ^ \beta"]


def test_json_has_token_identifier_level_and_position(run) -> None:
    code, out, _ = run(r"\frac{y^{\beta_1}_2 B}{C}", "--format", "json")
    rows = json.loads(out)
    assert code == 0
    assert rows[8] == {"token": "1", "identifier": "MLLR", "level": 3, "position": "R"}
    scripts = [row["token"] for row in rows if row["token"] in "^_"]
    assert scripts == ["^", "_", "_"]


def test_table_has_one_line_per_token(run) -> None:
    _, out, _ = run("x^2", "--format", "table")
    assert out.splitlines()[0].split() == ["token", "identifier", "level", "position"]
    assert out.splitlines()[4].split() == ["2", "ML", "1", "L"]


def test_expression_may_start_with_a_minus_and_a_lone_minus_reads_stdin(run) -> None:
    assert run("-x^2")[1].startswith("M  -\nM  x\n")
    assert run("-", stdin="x^2\n")[1] == "M  x\n└─ L  ^ 2\n"


@pytest.mark.parametrize(
    ("latex", "message"),
    [
        ("x^{2", "{ (token 3, column 3) is never closed"),
        ("x}", "} (token 2, column 2) closes nothing"),
        (r"\foo", r"\foo (token 1, column 1) is not known"),
        ("", "there is no expression to encode"),
    ],
)
def test_error_is_one_line_with_exit_code_two(run, latex: str, message: str) -> None:
    assert run(latex) == (2, "", f"posformer: {message}\n")
