"""The commands that train: their options and help. What they do is in `words` and `labels`, which
need numba.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from embedx.errors import DataError, EmbedxError


def train(
    corpora: list[str],
    objective: str | None = None,
    collapsed: bool = False,
    output: Path | None = None,
    overwrite: bool = False,
    cache_dir: Path | None = None,
    checkpoint_every: str = "10m",
    resume: bool = False,
    log_json: Path | None = None,
    dry_run: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Train word vectors on text.

    \b
    embedx train corpus.txt
    embedx train wikipedia-en-20240101 --dim 300 --epochs 1
    embedx train corpus.txt --objective ar --heldout 1%

    corpora    files, globs, directories, URLs, names of `embedx corpus list`, - for standard input
    collapsed  count all pairs first, then take full gradient steps; --epochs are iterations
    """
    given = SimpleNamespace(**locals())
    from embedx.cli import words

    words.train(given)


def classify(
    train: str,
    train_labels: str | None = None,
    test: str | None = None,
    test_labels: str | None = None,
    label_names: str | None = None,
    objective: str | None = None,
    start: str | None = None,
    output: Path | None = None,
    overwrite: bool = False,
    checkpoint_every: str = "10m",
    resume: bool = False,
    log_json: Path | None = None,
    dry_run: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Train a classifier on labelled data.

    \b
    embedx classify train.txt --test test.txt
    embedx classify rows.npz --train-labels labels.npz --weights tree
    embedx classify tickets.csv --text-column title,body --label-column topic

    train        XC, LIBSVM, fastText, CSV, TSV, JSON Lines, Parquet, .npy, .npz or IDX file,
                 DATA@SPLIT[:COLUMN], or digits
    label_names  names of the labels from 0 on: one per line, or ID TAB ... TAB NAME
    start        continue training this model folder on new rows, which may have new labels
    """
    given = SimpleNamespace(**locals())
    from embedx.cli import labels

    labels.classify(given)


def compare(
    data: list[str],
    objectives: Annotated[str, typer.Option()],
    train_labels: str | None = None,
    test: str | None = None,
    test_labels: str | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    next_item: str | None = None,
    output: Path | None = None,
    overwrite: bool = False,
    cache_dir: Path | None = None,
    resume: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Train several objectives on the same data, and rank them.

    Each is trained for the same time, but to convergence where its settings say so, such as
    weights=tree. The folder gets a page with the ranking and learning curves.

    data        text, named as for `embedx train`, but not -; with --test, labelled data, as for
                `embedx classify`
    objectives  the output layers, separated by commas, perhaps with settings: ns,hs or
                softmax,ova:loss=squared-hinge
    next_item   sessions, one per line, by whose last items models are ranked and tuned
    resume      add the missing runs to the comparison in the folder
    """
    given = SimpleNamespace(**locals())
    from embedx.cli import labels

    labels.compare(given)


def resume(output: Path, quiet: bool = False, verbose: bool = False) -> None:
    """Resume an interrupted run from its last checkpoint.

    output  the output folder of the run, or OUTPUT.checkpoint
    """
    from embedx.training import checkpoint

    output = checkpoint.output_of(output).absolute()
    command, arguments, directory = checkpoint.requested(output)
    file = checkpoint.folder_of(output) / checkpoint.RUN
    commands: dict[str, Callable[..., None]] = {"train": train, "classify": classify}
    run = commands.get(command)
    if run is None:
        raise checkpoint.damaged(file, f"no command {command}")
    check_arguments(file, command, run, arguments)
    try:
        os.chdir(directory)
    except OSError as error:
        problem = f"the folder it was started in, {directory}, cannot be entered: {error.strerror}"
        raise DataError(file, None, problem, "restore that folder") from error
    paths = {
        name: Path(arguments[name]) for name in ("cache_dir", "log_json") if arguments.get(name)
    }
    here = {"output": output, "quiet": quiet, "verbose": verbose}
    run(**arguments | paths | here, resume=True)


def check_arguments(
    file: Path, command: str, run: Callable[..., None], arguments: Mapping[str, Any]
) -> None:
    """Raise `EmbedxError` if the arguments in the `file` of a checkpoint are not those of the
    command, or name a cluster or a log while other users may have written them.
    """
    from embedx.cli.options import SETTINGS
    from embedx.settings import check
    from embedx.training import checkpoint

    types = get_type_hints(run)
    for name, value in arguments.items():
        if name not in types:
            raise checkpoint.damaged(file, f"{command} has no argument {name}")
        if not fits(value, types[name]):
            raise checkpoint.damaged(file, f"{name} is {value!r}")
    for name, parameter in inspect.signature(run).parameters.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise checkpoint.damaged(file, f"no {name}")
    typed = arguments.get("typed") or {}
    settings = SETTINGS[command]()
    for name, value in typed.items():
        if name not in settings:
            raise checkpoint.damaged(file, f"{command} has no setting {name}")
        try:
            check(settings[name].field, value)
        except EmbedxError as error:
            raise checkpoint.damaged(file, str(error)) from error
    if typed.get("cluster") or arguments.get("log_json"):
        checkpoint.check_trusted(file)


def fits(value: object, kind: Any) -> bool:
    """Whether a value from JSON is of a type of the signature of a command."""
    if get_origin(kind) in (Union, UnionType):
        return any(fits(value, part) for part in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(fits(item, get_args(kind)[0]) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(isinstance(name, str) for name in value)
    return type(value) is (str if kind is Path else kind)
