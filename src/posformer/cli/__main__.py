"""`python -m posformer.cli`."""

from posformer.cli import main

main()
