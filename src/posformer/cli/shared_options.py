"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

# The defaults of `DecodingOptions`, which would import NumPy; a test compares them.
DEFAULT_BEAM = 3
DEFAULT_SCALES = 2
MAX_SCALES = 3
PAPER_BEAM = 10  # the papers of the field report results with this beam width


BeamOption = Annotated[int, Option(min=1, max=200, help="Beam width.")]
ScalesOption = Annotated[
    int, Option(min=1, max=MAX_SCALES, help="Image scales (test-time augmentation).")
]
GreedyOption = Annotated[bool, Option("--greedy", help="Greedy search at one scale: fastest.")]
ConstrainedOption = Annotated[
    bool, Option(help="Decode only LaTeX that parses (never for imported checkpoints).")
]
AdaptiveOption = Annotated[bool, Option(help="Use further scales only where hypotheses are close.")]
ModelOption = Annotated[
    str | None,
    Option(
        help="Model folder, checkpoint, hf://OWNER/NAME[@REVISION] or another URL "
        "(default: the bundled model)."
    ),
]
AllowCodeOption = Annotated[
    bool,
    Option("--allow-code", help="Import the Python module that a checkpoint or model names."),
]
EngineOption = Annotated[Literal["auto", "onnx", "pytorch"], Option(help="Runtime.")]
ThreadsOption = Annotated[int | None, Option(min=1, help="CPU threads (default: all cores).")]
DataOption = Annotated[Path | None, Option(help="Dataset of images or ink: zip file or folder.")]
SplitOption = Annotated[str | None, Option(help="Split of the dataset, such as 2014.")]
LeaveOutOption = Annotated[
    str | None, Option(metavar="SPLIT", help="Skip expressions that occur in this split.")
]
LimitOption = Annotated[int | None, Option(min=1, help="Maximum number of expressions.")]
HalfOption = Annotated[
    bool, Option("--half", help="Store weights in half precision: half the size.")
]
VocabularyOption = Annotated[
    Path | None, Option(help="Vocabulary, one token per line (default: the bundled model's).")
]
HeldOutOption = Annotated[
    list[str] | None,
    Option(metavar="DATA[:SPLIT]", help="Dataset whose texts are left out; repeatable."),
]
LanguageWeightOption = Annotated[
    float | None,
    Option(min=0, help="Weight of the model's n-gram model (default: as calibrated)."),
]
OutputModelArgument = Annotated[Path, Argument(metavar="OUTPUT", help="Model folder to write.")]
