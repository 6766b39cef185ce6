"""The commands that train: their options and help. What they do is in `words` and `labels`, which
need numba.
"""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer


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

    command, arguments, directory = checkpoint.requested(checkpoint.output_of(output))
    os.chdir(directory)
    paths = {
        name: Path(arguments[name])
        for name in ("output", "cache_dir", "log_json")
        if arguments.get(name)
    }
    run = train if command == "train" else classify
    run(**arguments | paths | {"quiet": quiet, "verbose": verbose}, resume=True)
