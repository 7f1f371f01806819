"""`python -m posformer.cli`."""

from posformer.cli import run

run()
