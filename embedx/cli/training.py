"""The commands that train: their options and help. What they do is in `training_runs`,
`comparison` and `resume`, which need numba.

The docstring of a command is its help; the list in that of its request describes its arguments
(`request_options.documented`).
"""

import dataclasses
from pathlib import Path

from embedx.cli.requests import CompareRequest
from embedx.tasks.requests import ClassifyRequest, TrainRequest


def train(request: TrainRequest) -> None:
    """Train word vectors on text.

    \b
    embedx train corpus.txt
    embedx train wikipedia-en-20240101 --dim 300 --epochs 1
    embedx train corpus.txt --objective ar --heldout 1%
    """
    from embedx.cli.training_runs import train_and_print

    train_and_print(request)


def classify(request: ClassifyRequest) -> None:
    """Train a classifier on labelled data.

    \b
    embedx classify train.txt --test test.txt
    embedx classify rows.npz --train-labels labels.npz --weights tree
    embedx classify may.csv june.csv --text-column title,body --label-column topic
    """
    from embedx.cli.training_runs import train_and_print

    train_and_print(request)


def compare(request: CompareRequest) -> None:
    """Train several objectives on the same data, and rank them.

    Each is trained for the same time, but to convergence where its settings say so, such as
    weights=tree. The folder gets a page with the ranking and learning curves.
    """
    from embedx.cli import comparison

    comparison.compare(request)


def resume(output: Path, quiet: bool = False, verbose: bool = False) -> None:
    """Resume an interrupted run from its last checkpoint.

    output  the output folder of the run, or OUTPUT.checkpoint
    """
    from embedx.cli.resume import request_to_resume
    from embedx.cli.training_runs import train_and_print

    request = request_to_resume(output)
    train_and_print(dataclasses.replace(request, quiet=quiet, verbose=verbose))
