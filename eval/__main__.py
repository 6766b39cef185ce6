"""Measure, and write the page: `python -m eval NAME`. Alone it lists the experiments."""

import argparse
import ast
import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from embedx.errors import EmbedxError
from embedx.spelling import on_command_line
from eval.experiment import QUICK_RESULTS, RESULTS, Experiment, Run, measure, report, stop

EXPERIMENTS = {
    "speed": "words per second, quality and memory of skip-gram beside gensim and fastText",
    "speed-classification": "classifiers beside label trees, fastText and scikit-learn",
    "speed-many-labels": "many labels on sparse features, beside label trees",
    "graphs": "graphs and sessions, beside PecanPy, fastnode2vec and gensim",
    "scale": "a text of a billion words, how fast corpora are read, stages on many cores",
    "subwords": "vectors of character n-grams beside fastText's, for rare and unseen words too",
    "cluster": (
        "workers on a Ray cluster beside one machine: quality, time, and a simulation of many"
        " machines"
    ),
    "defaults": (
        "every objective of classification at its defaults, beside scikit-learn's linear"
        " classifiers"
    ),
    "unknown-labels": "rows of labels that a classifier was not trained on, and a threshold",
    "metric-learning": "labels that were not trained, by inner products and by distances",
    "gaussian-weights": "labels by normal distributions of weights beside numbers",
    "word-intervals": "cosines by other seeds beside the intervals of embedx nn",
    "related": "cosines of related words beside people's associations, and beside gensim",
    "bounds": "how far each loss is from the likelihood, by the rows that it scores",
    "objectives": "all output layers of skip-gram side by side",
    "adversarial-words": "noise by a tree over input vectors beside noise by frequency, for words",
    "search-proposal": "rows found and weighted draws for losses over all rows, beside draws alone",
    "step-sizes": "word vectors at multiples of each objective's default learning rate",
    "implicit-minibatches": "the proximal step of a minibatch at once, beside single steps",
    "papers-augment-and-reduce": "Ruiz et al. 2018, the tables by the paper's protocol",
    "papers-one-vs-each": "Titsias 2016, likewise",
    "papers-unbiased-softmax": "Fagan & Iyengar 2018, likewise",
    "papers-adversarial": "Bamler & Mandt 2020: noise conditioned on the input beside other noise",
    "papers-ldgs": "Yen et al. 2018: exact losses beside rows found by search",
}
OVERVIEW = {
    "overview": "the tables and the picture of README.md and docs/benchmarks.md, from the records"
}


DATA = {"data": "builds a data set of the tables from public repositories"}


def main(arguments: list[str] | None = None) -> None:
    typed = sys.argv[1:] if arguments is None else arguments
    if not typed:
        print(list_of_experiments())
    elif typed[:1] == [*DATA]:
        with one_line_errors():
            import_module("eval.data").main(typed[1:])
    elif typed == [*OVERVIEW]:
        import_module("eval.overview").publish()
    else:
        run_experiment(typed)


def list_of_experiments() -> str:
    """A line for each name that can be typed."""
    lines = EXPERIMENTS | OVERVIEW | DATA
    return "\n".join(f"python -m eval {name:28s}{about}" for name, about in lines.items())


def experiment_called(name: str) -> Experiment:
    return import_module("eval." + name.replace("-", "_")).EXPERIMENT


def run_experiment(typed: list[str]) -> None:
    """Measure what was typed, unless nothing is to be measured, and write the page."""
    parser = new_parser()
    options = parser.parse_args(typed)
    experiment = experiment_called(options.name)
    settings = checked_settings(parser, options, experiment)
    results = results_folder(parser, options)
    if not (options.report_only or options.publish):
        if options.quick and not options.resume:
            (results / f"{experiment.name}.jsonl").unlink(missing_ok=True)
        run = Run(experiment, options.only, quick=options.quick, data=options.data, **settings)
        measure_or_stop(run, results, shown(typed), options.resume)
    records = report(experiment, results, options.quick)
    if options.publish and experiment.publish:
        experiment.publish(records)


def new_parser() -> argparse.ArgumentParser:
    """The options of an experiment."""
    parser = argparse.ArgumentParser(prog="python -m eval", description=__doc__)
    parser.add_argument("name", choices=EXPERIMENTS)
    parser.add_argument(
        "--only", nargs="+", default=[], help="sections, data sets, contenders; by default all"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a trial of minutes, whose results go to the temporary folder",
    )
    parser.add_argument("--resume", action="store_true", help="measure only what is not on record")
    parser.add_argument(
        "--report-only", action="store_true", help="measure nothing, write tables and pictures anew"
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="the same, and put the scores into embedx (objectives)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with corpora/, xc/, wordsim/, graphs/ and sessions/; by default $EMBEDX_DATA",
    )
    parser.add_argument(
        "--results", type=Path, help="folder of records, page and pictures (eval/results)"
    )
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="the experiment's own settings"
    )
    parser.add_argument(
        "--peers",
        type=Path,
        metavar="DIR",
        help="folder with a folder for each peer and its program (speed)",
    )
    return parser


def checked_settings(
    parser: argparse.ArgumentParser, options: argparse.Namespace, experiment: Experiment
) -> dict[str, object]:
    """The experiment's own settings by name; ends in a line for what it does not have."""
    choices = experiment.choices
    unknown_choices = set(options.only) - {word for words in choices.values() for word in words}
    if unknown_choices:
        known = "; ".join(
            f"{what}: {' '.join(map(repr, words))}" for what, words in choices.items()
        )
        names = ", ".join(sorted(unknown_choices))
        parser.error(f"--only: no {names} in {options.name}, which has {known}")
    if options.peers is not None:
        options.set.append(f"peers={options.peers}")
    texts = dict(setting.partition("=")[::2] for setting in options.set)
    unknown_settings = texts.keys() - experiment.settings.keys()
    if unknown_settings:
        known = " ".join(experiment.settings) or "nothing"
        names = ", ".join(sorted(unknown_settings))
        parser.error(f"--set: {options.name} has no {names}, but {known}")
    if options.publish and experiment.publish is None:
        parser.error(f"--publish: {options.name} publishes nothing")
    return {name: value_of(text) for name, text in texts.items()}


def results_folder(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Path:
    """The folder of records and pages; a quick trial's is never the published one."""
    default = QUICK_RESULTS if options.quick else RESULTS
    results: Path = options.results or default
    if options.quick and results.resolve() == RESULTS.resolve():
        parser.error("--quick does not write to the published results; leave out --results")
    return results


def measure_or_stop(run: Run, results: Path, command: str, resumes: bool) -> None:
    """Measure; what the user can mend, a missing file and Ctrl-C end in one line."""
    try:
        with one_line_errors():
            measure(run, results, command, resumes)
    except FileNotFoundError as error:
        if run.data_folder is None or str(run.data_folder) not in str(error.filename):
            raise
        stop(f"{error.filename}: no such file; --data names the folder that has it")
    except KeyboardInterrupt:
        raise SystemExit(
            "interrupted; --resume continues from here, --report-only shows what there is"
        ) from None


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """End in one line for a mistake of the user."""
    try:
        yield
    except EmbedxError as error:
        stop(error.spelled(on_command_line))


def value_of(text: str) -> object:
    """A number, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def shown(typed: list[str]) -> str:
    """The command as typed, files by their names alone, without what only says how far to go on."""
    words = [word for word in typed if word not in ("--resume", "--report-only")]
    # of NAME=FILE the value alone
    words = [re.sub(rf"[^={os.sep}]*{os.sep}.*{os.sep}", "", word) for word in words]
    return f"python -m eval {shlex.join(words)}"


if __name__ == "__main__":
    main()
