"""`posformer evaluate`, `compare` and `calibrate`."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from posformer.cli import shared_options as shared

_NEURAL_WEIGHT = 0.2  # of a neural language model


def evaluate(
    data: shared.DataOption = None,
    split: shared.SplitOption = None,
    model: shared.ModelOption = None,
    earlier: Annotated[
        Path | None,
        Option("--from", metavar="FILE", help="Predictions to score instead of a model's."),
    ] = None,
    output: Annotated[
        Path | None, Option("--output", "-o", help="JSON file of the scores to write.")
    ] = None,
    predictions: Annotated[
        Path | None, Option(help="File of predictions to write, one JSON object per line.")
    ] = None,
    report: Annotated[
        Path | None, Option(metavar="DIR", help="Folder of an HTML report to write.")
    ] = None,
    errors: Annotated[int, Option(min=0, help="Maximum number of errors in the report.")] = 200,
    against: Annotated[
        Path | None, Option(metavar="FILE", help="Predictions of another model to compare with.")
    ] = None,
    label_graphs: Annotated[
        Path | None, Option(metavar="DIR", help="Folder of symLG files to write, for LgEval.")
    ] = None,
    leave_out: shared.LeaveOutOption = None,
    limit: shared.LimitOption = None,
    beam: shared.BeamOption = shared.PAPER_BEAM,
    scales: shared.ScalesOption = 1,
    greedy: shared.GreedyOption = False,
    language_model: Annotated[
        Path | None, Option(metavar="DIR", help="Neural language model that reranks the beam.")
    ] = None,
    language_weight: Annotated[
        float | None,
        Option(
            min=0,
            help="Weight of the model's n-gram model (default: 0, as in papers), or of "
            "--language-model (default: 0.2).",
        ),
    ] = None,
    constrained: shared.ConstrainedOption = True,
    adaptive: shared.AdaptiveOption = False,
    markdown: Annotated[bool, Option("--markdown", help="Print the tables in Markdown.")] = False,
    engine: shared.EngineOption = "auto",
    threads: shared.ThreadsOption = None,
    allow_code: shared.AllowCodeOption = False,
) -> None:
    """Evaluate a model on a dataset: ExpRate, ExpRate with up to 3 errors, CER."""
    from rich.console import Console

    from posformer import evaluation
    from posformer.evaluation.evaluate import EvaluationOutputs, evaluate_predictions
    from posformer.evaluation.predict import open_set, predict
    from posformer.evaluation.rescoring import Rescorer
    from posformer.runtime import load_runtime
    from posformer.search import DecodingOptions

    if (split if data else earlier) is None:
        raise typer.BadParameter("give --data with --split, or --from", param_hint="--data")
    if language_model is not None and (greedy or earlier is not None):
        wrong = "--from has no n-best list" if earlier else "--greedy has one hypothesis"
        raise typer.BadParameter(wrong, param_hint="--language-model")
    if earlier is not None and model is not None:
        raise typer.BadParameter("--from runs no model", param_hint="--model")
    if report is not None:
        import posformer.evaluation.report  # noqa: F401  # fails early if an extra is missing
    others = None if against is None else evaluation.read_predictions(against)
    runtime = None if earlier is not None else load_runtime(model, engine, threads, allow_code)
    examples = None
    if data and split:
        how = "grey" if runtime is None else runtime.config.image.preprocessing
        examples = open_set(data, split, leave_out, limit, how)
    if examples is None or runtime is None:
        found, used_ink = evaluation.read_predictions(str(earlier)), False
    else:
        options = DecodingOptions(
            beam=beam,
            scales=scales,
            greedy=greedy,
            constrained=constrained,
            adaptive=adaptive,
            language_weight=language_weight or 0.0,
        )
        rescorer = None
        if language_model is not None:
            weight = _NEURAL_WEIGHT if language_weight is None else language_weight
            rescorer = Rescorer.load(language_model, weight)
            options = replace(options, top_k=beam, adaptive=False, language_weight=0.0)
        found = list(predict(runtime, examples, options, rescorer))
        used_ink = bool(runtime.info.get("used_ink"))
    report_options = None
    if report is not None:
        report_options = evaluation.ReportOptions(
            title=f"{data.name} {split}" if data else str(earlier),
            split=split,
            model=str(model or earlier or "the bundled model"),
            other=str(against),
            used_ink=used_ink,
            most_errors=errors,
        )
    outputs = EvaluationOutputs(output, predictions, report, label_graphs)
    scores, comparison = evaluate_predictions(found, outputs, report_options, examples, others)
    if markdown:
        typer.echo(evaluation.markdown_table(scores, split=split, used_ink=used_ink))
    else:
        Console().print(evaluation.rich_tables(scores, split=split, used_ink=used_ink))
    if comparison is not None:
        typer.echo(f"against {against}: {comparison.summary()}")


def compare(
    candidates: Annotated[
        list[str],
        Argument(
            metavar="CONFIG[:KEY=VALUE,...]... [KEY=VALUE]...",
            help="Configs, finished runs or model folders; settings to override in all configs.",
        ),
    ],
    data: shared.DataOption = None,
    split: shared.SplitOption = None,
    leave_out: shared.LeaveOutOption = None,
    seeds: Annotated[int, Option(min=1, help="Training runs per config.")] = 1,
    minutes: Annotated[
        float | None, Option(help="CPU minutes per training run (default: as configured).")
    ] = None,
    epochs: Annotated[
        int | None, Option(min=1, help="Epochs per training run (default: as configured).")
    ] = None,
    baseline: Annotated[
        str | None,
        Option(metavar="NAME", help="Baseline (default: the model without position forest)."),
    ] = None,
    output: Annotated[
        Path, Option("--output", "-o", help="Folder of the runs and the table.")
    ] = Path("runs/compare"),
    limit: shared.LimitOption = None,
    beam: shared.BeamOption = shared.PAPER_BEAM,
    greedy: shared.GreedyOption = False,
    threads: Annotated[int, Option(min=1, help="CPU threads.")] = 1,
    allow_code: shared.AllowCodeOption = False,
) -> None:
    """Train several configs at an equal budget and print a table; resumes where it stopped."""
    from posformer import comparison

    if (data is None) != (split is None):
        raise typer.BadParameter("name both or neither", param_hint="--data, --split")
    configs, overrides = comparison.split_arguments(candidates)
    found = comparison.gather(
        configs,
        overrides,
        minutes=minutes,
        epochs=epochs,
        threads=threads,
        baseline=baseline,
        allow_code=allow_code,
    )
    if data is not None and split is not None:
        benchmark = comparison.Benchmark(str(data), split, leave_out, limit, beam, greedy)
    else:
        benchmark = comparison.Benchmark.of_first(found, limit=limit, beam=beam, greedy=greedy)
    results: list[comparison.Result] = []
    failed = False
    for result in comparison.run_all(
        found, benchmark, output, seeds=seeds, threads=threads, allow_code=allow_code
    ):
        if isinstance(result, comparison.Result):
            results.append(result)
            table = comparison.write_report(found, results, benchmark, output)
        else:
            failed = True
            typer.echo(f"posformer: {result}", err=True)
    if results:
        typer.echo(table)
    raise typer.Exit(1 if failed else 0)


def calibrate(
    model: Annotated[Path, Argument(metavar="MODEL", help="Model folder.")],
    data: Annotated[Path, Option(help="Dataset of ink or its renderings: zip file or folder.")],
    split: Annotated[str, Option(help="Split to fit on: validation data, never a test set.")],
    leave_out: shared.LeaveOutOption = None,
    images: Annotated[
        list[str] | None,
        Option(metavar="DATA:SPLIT", help="Labeled photographs or clean images; repeatable."),
    ] = None,
    limit: shared.LimitOption = None,
    beam: shared.BeamOption = shared.DEFAULT_BEAM,
    scales: shared.ScalesOption = shared.DEFAULT_SCALES,
    curve: Annotated[
        Path | None, Option(help="Plot of the reliability curves to write: .svg or .png.")
    ] = None,
    threads: shared.ThreadsOption = None,
    allow_code: shared.AllowCodeOption = False,
) -> None:
    """Calibrate a model: confidence, thresholds, and the weight of its language model."""
    from posformer.evaluation import reliability
    from posformer.evaluation.language_weight import choose_language_weight, describe_trial
    from posformer.evaluation.predict import open_set
    from posformer.runtime import load_runtime
    from posformer.runtime.language_prior import LanguageWeight
    from posformer.search import DecodingOptions

    runtime = load_runtime(model, threads=threads, allow_code=allow_code)
    how = runtime.config.image.preprocessing
    examples = open_set(data, split, leave_out, limit, how)
    names = [name.rpartition(":") for name in images or ()]
    photographs = [open_set(path, part, None, limit, how) for path, _, part in names]
    options = DecodingOptions(beam=beam, scales=scales)
    language = None
    skipped = f" without expressions of {leave_out}" if leave_out else ""
    search = f", beam {beam}, scales {scales}"
    sources = {
        "ink": f"{data.name} {split}{skipped}{search}",
        "images": ", ".join(f"{Path(path).name} {part}" for path, _, part in names) + search,
    }
    if runtime.language is not None:
        chosen = choose_language_weight(runtime, [examples, *photographs], options)
        language = LanguageWeight(chosen.weight, "; ".join(sources.values()))
        runtime.info["language"] = asdict(language)
        typer.echo(describe_trial(chosen) + "\n")
    trials, thresholds = reliability.calibrate(runtime, examples, photographs, options, sources)
    for kind, trial in trials.items():
        heading = f"{kind}: " if len(trials) > 1 else ""
        typer.echo(heading + reliability.markdown_reliability(trial) + "\n")
    typer.echo(reliability.describe_thresholds(thresholds))
    if curve is not None:
        reliability.draw_reliability(trials, curve)
    folder = reliability.store_calibrations(model, trials, thresholds, language)
    typer.echo(f"\n{folder.path}: calibrated")
