"""Commands that make models: training, n-grams, export, import; and `info`."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared


def train(
    config: Annotated[Path, Option("--config", "-c", help="Config file (YAML).")],
    changes: Annotated[
        list[str] | None,
        Argument(metavar="[KEY=VALUE]...", help="Settings to override, such as epochs=10."),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder of the run (default: runs/NAME).")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Resume from the last checkpoint.")] = False,
    init: Annotated[
        Path | None, Option(metavar="MODEL", help="Model to take the initial weights from.")
    ] = None,
    allow_code: shared.AllowCodeOption = False,
) -> None:
    """Train a model from a config."""
    from posformer.training.trainer import train as run
    from posformer.training.training_config import load_config

    settings = load_config(config, changes)
    folder = output or Path("runs") / settings.name
    run(settings, folder, resume=resume, init=init, allow_code=allow_code)


def train_language_model(
    texts: Annotated[
        list[Path], Argument(metavar="TEXTS...", help="Formula corpora, gzipped or not.")
    ],
    output: Annotated[
        Path, Option("--output", "-o", help="Folder of the language model to write.")
    ] = Path("runs/language_model"),
    vocabulary: shared.VocabularyOption = None,
    held_out: shared.HeldOutOption = None,
    minutes: Annotated[float, Option(min=0.001, help="CPU minutes of training.")] = 20.0,
    width: Annotated[int, Option(min=4, help="Width of the layers.")] = 256,
    layers: Annotated[int, Option(min=1, help="Number of layers.")] = 3,
    seed: Annotated[int, Option(min=0, help="Random seed.")] = 0,
    threads: Annotated[int, Option(min=1, help="CPU threads.")] = 1,
) -> None:
    """Train a language model on formula texts, for RLFN and `evaluate --language-model`."""
    import torch

    from posformer.models import LanguageModelConfig
    from posformer.runtime.model_export import load_vocabulary
    from posformer.training import language_training

    torch.set_num_threads(threads)
    config = LanguageModelConfig(width=width, layers=layers, feedforward=4 * width)
    settings = language_training.LanguageTraining(minutes=minutes, seed=seed)
    tokens = load_vocabulary(vocabulary)
    unseen = _held_out_texts(held_out)
    language_training.train_language_model(texts, tokens, output, config, settings, unseen)


def count_ngrams(
    texts: Annotated[
        list[Path], Argument(metavar="TEXTS...", help="Formula corpora, gzipped or not.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="File of the language model.")] = Path(
        "runs/language.safetensors"
    ),
    vocabulary: shared.VocabularyOption = None,
    held_out: shared.HeldOutOption = None,
    min_counts: Annotated[
        str,
        Option(metavar="N,N,...", help="Minimum counts of n-grams of 1, 2, ... tokens."),
    ] = "1,3,8,14,20",
    max_tokens: Annotated[int, Option(min=1, help="Longer texts are dropped.")] = 110,
) -> None:
    """Count an n-gram language model on formula texts, for `export --language-model`."""
    from posformer.runtime.model_export import load_vocabulary
    from posformer.synthesis.texts import load_texts
    from posformer.training import ngram_training

    try:
        counts = [max(1, int(count)) for count in min_counts.split(",")]
    except ValueError as error:
        raise typer.BadParameter(
            f"'{min_counts}' is not a list of numbers such as 1,3,8", param_hint="--min-counts"
        ) from error
    tokens = load_vocabulary(vocabulary)
    corpus = load_texts(
        texts, tokens.tokens, held_out=_held_out_texts(held_out), max_tokens=max_tokens
    )
    info = {"texts": [file.name for file in texts], "count": len(corpus), "min_counts": counts}
    model = ngram_training.count_ngrams(corpus, counts, info)
    model.save(output)
    entries = sum(len(table.hashes) for table in model.ngrams)
    typer.echo(f"{output}: {entries} n-grams of up to {model.order} tokens, {len(corpus)} texts")


def _held_out_texts(names: list[str] | None) -> list[tuple[str, ...]]:
    """Return the captions of datasets, each a path or a path and a split."""
    from posformer.training.data_mix import dataset_captions

    texts = []
    for name in names or ():
        path, _, split = (name, "", None) if Path(name).exists() else name.rpartition(":")
        texts += dataset_captions(path, split)
    return texts


def export(
    source: Annotated[
        Path, Argument(metavar="CHECKPOINT", help="Training checkpoint or model folder.")
    ],
    output: shared.OutputModelArgument,
    half: shared.HalfOption = False,
    card: Annotated[
        Path | None, Option(help="Model card (Markdown) to include as README.md.")
    ] = None,
    language_model: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="N-gram language model to include (default: that of a model folder).",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        Option(
            min=0.1,
            max=4,
            help="Input scale relative to CROHME's images (default: as in training). Larger is "
            "slower and often better; choose it on validation data.",
        ),
    ] = None,
    allow_code: shared.AllowCodeOption = False,
    push: Annotated[
        str | None,
        Option(metavar="hf://OWNER/NAME", help="Upload the folder to the Hugging Face Hub."),
    ] = None,
) -> None:
    """Write a model folder, and compare ONNX Runtime with PyTorch."""
    from posformer.models.checkpoint import load_model
    from posformer.models.remote_model import HubModel, push_model
    from posformer.runtime.model_export import at_scale, export_model, known_of, language_of

    hub_model = HubModel.parse(push) if push is not None else None
    model = at_scale(load_model(source, allow_code), scale)
    language = language_model or language_of(source)
    folder, difference = export_model(
        model, output, known_of(source), half=half, card=card, language=language
    )
    if difference is None:
        typer.echo(f"{folder.path}: written without ONNX files; runs with PyTorch only")
    else:
        typer.echo(f"{folder.path}: written; ONNX and PyTorch agree within {difference:.1g}")
        if "calibration" not in folder.info:
            typer.echo("the confidence is not calibrated; run `posformer calibrate`")
    if hub_model is not None:
        typer.echo(f"{push_model(folder.path, hub_model)}: uploaded")


def import_checkpoint(
    checkpoint: Annotated[
        Path, Argument(help="Checkpoint published by the authors of PosFormer or CoMER.")
    ],
    output: shared.OutputModelArgument,
    vocabulary: shared.VocabularyOption = None,
    half: shared.HalfOption = False,
) -> None:
    """Convert a checkpoint published by the authors of PosFormer or CoMER."""
    from posformer.models.public_checkpoint import load_public_checkpoint
    from posformer.runtime.model_export import export_model, load_vocabulary

    model = load_public_checkpoint(checkpoint, load_vocabulary(vocabulary))
    # So that the model answers as the authors' program does.
    free = {"constrained": False}
    known = {"source": checkpoint.name, "origin": "imported checkpoint", **free}
    folder, difference = export_model(model, output, known, half=half)
    typer.echo(f"{folder.path}: written; ONNX and PyTorch agree within {difference:.1g}")


def info(model: shared.ModelOption = None) -> None:
    """Show versions and the details of a model."""
    from posformer.info import describe_model, describe_program

    typer.echo(describe_program())
    typer.echo(describe_model(model))
