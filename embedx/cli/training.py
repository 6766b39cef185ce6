"""The commands that train: their options and help. What they do is in `words` and `labels`, which
need numba.

The docstring of a command is its help, and the list in it describes its arguments
(`options.documented`).
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from embedx.cli.requests import CompareRequest, fits, is_required
from embedx.errors import DataError, EmbedxError
from embedx.tasks.requests import RUNS, ClassifyRequest, RunRequest, TrainRequest


def train(request: TrainRequest) -> None:
    """Train word vectors on text.

    \b
    embedx train corpus.txt
    embedx train wikipedia-en-20240101 --dim 300 --epochs 1
    embedx train corpus.txt --objective ar --heldout 1%

    corpora    files, globs, directories, URLs, names of `embedx corpus list`, - for standard input
    collapsed  count all pairs first, then take full gradient steps; --epochs are iterations
    """
    from embedx.cli import words

    words.train(request)


def classify(request: ClassifyRequest) -> None:
    """Train a classifier on labelled data.

    \b
    embedx classify train.txt --test test.txt
    embedx classify rows.npz --train-labels labels.npz --weights tree
    embedx classify may.csv june.csv --text-column title,body --label-column topic

    objective    output layer; by default chosen from the data; `embedx objectives` lists all
    train        {formats} files, globs, folders, DATA@SPLIT[:COLUMN] or digits
    label_names  names of the labels from 0 on: one per line, or ID TAB ... TAB NAME
    start        continue training this model folder on new rows, which may have new labels
    """
    from embedx.cli import labels

    labels.classify(request)


def compare(request: CompareRequest) -> None:
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
    from embedx.cli import labels

    labels.compare(request)


def resume(output: Path, quiet: bool = False, verbose: bool = False) -> None:
    """Resume an interrupted run from its last checkpoint.

    output  the output folder of the run, or OUTPUT.checkpoint
    """
    from embedx import objectives
    from embedx.training import checkpoint

    output = checkpoint.output_of(output).absolute()
    command, arguments, directory, packages = checkpoint.requested(output)
    file = checkpoint.folder_of(output) / checkpoint.RUN
    kind = RUNS.get(command)
    if kind is None:
        raise checkpoint.damaged(file, f"no command {command}")
    if packages:
        # whose settings are unknown where they are missing
        facts = {"objective": arguments.get("objective"), "packages": packages}
        objectives.check_packages(file.parent, facts, arguments.get("typed") or {})
    check_arguments(file, command, kind, arguments)
    try:
        os.chdir(directory)
    except OSError as error:
        problem = f"the folder it was started in, {directory}, cannot be entered: {error.strerror}"
        raise DataError(file, None, problem, "restore that folder") from error
    request = dataclasses.replace(
        kind.of_arguments(arguments), output=output, quiet=quiet, verbose=verbose, resume=True
    )
    if isinstance(request, TrainRequest):
        train(request)
    elif isinstance(request, ClassifyRequest):
        classify(request)


def check_arguments(
    file: Path, command: str, kind: type[RunRequest], arguments: Mapping[str, Any]
) -> None:
    """Raise `EmbedxError` if the arguments in the `file` of a checkpoint are not those of the
    command, or name a cluster or a log while other users may have written them.
    """
    from embedx.cli.options import SETTINGS
    from embedx.settings import check
    from embedx.training import checkpoint

    types = get_type_hints(kind)
    for name, value in arguments.items():
        if name not in types:
            raise checkpoint.damaged(file, f"{command} has no argument {name}")
        if not fits(value, types[name]):
            raise checkpoint.damaged(file, f"{name} is {value!r}")
    for field in dataclasses.fields(kind):
        if is_required(field) and field.name not in arguments:
            raise checkpoint.damaged(file, f"no {field.name}")
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
