"""The commands that train: their options and help. What they do is in `training_runs`,
`comparison` and `resume`, which need numba.

The docstring of a command is its help, and the list in it describes its arguments
(`options.documented`).
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

    corpora    files, globs, directories, URLs, names of `embedx corpus list`, - for standard input
    collapsed  count all pairs first, then take full gradient steps; --epochs are iterations
    """
    from embedx.cli.training_runs import train_and_print

    train_and_print(request)


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
    from embedx.cli.training_runs import train_and_print

    train_and_print(request)


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
