"""The examples of docs/latex.md are right."""

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from posformer.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "latex.md"
COMMANDS = re.findall(
    r"```console\n\$ (.*?)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
)


def test_python_examples_of_the_page() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 10
    assert results.failed == 0


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_commands_of_the_page(
    command: str,
    output: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out == output
