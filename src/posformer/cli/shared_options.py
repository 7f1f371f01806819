"""Options that several commands share."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

# The defaults of `DecodingOptions`, which would import NumPy; a test compares them.
DEFAULT_BEAM = 3
DEFAULT_SCALES = 2
MAX_SCALES = 3
PAPER_BEAM = 10  # the papers of the field report results with this beam width


class EngineChoice(str, Enum):
    """Runtimes."""

    AUTO = "auto"
    ONNX = "onnx"
    PYTORCH = "pytorch"


BeamOption = Annotated[int, typer.Option(min=1, max=200, help="Beam width.")]
ScalesOption = Annotated[
    int, typer.Option(min=1, max=MAX_SCALES, help="Image scales (test-time augmentation).")
]
GreedyOption = Annotated[
    bool, typer.Option("--greedy", help="Greedy search at one scale: fastest.")
]
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="Model folder or checkpoint (default: the bundled model)."),
]
EngineOption = Annotated[EngineChoice, typer.Option("--engine", help="Runtime.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="CPU threads (default: all cores).")
]
DataOption = Annotated[
    Path | None, typer.Option("--data", help="Dataset of images or ink: zip file or folder.")
]
SplitOption = Annotated[
    str | None, typer.Option("--split", help="Split of the dataset, such as 2014.")
]
LeaveOutOption = Annotated[
    str | None,
    typer.Option("--leave-out", metavar="SPLIT", help="Skip expressions that occur in this split."),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Maximum number of expressions.")
]
HalfOption = Annotated[
    bool, typer.Option("--half", help="Store weights in half precision: half the size.")
]
OutputModelArgument = Annotated[
    Path, typer.Argument(metavar="OUTPUT", help="Model folder to write.")
]
