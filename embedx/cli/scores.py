"""The work of `embedx eval`: the library called, the scores printed."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from embedx.cli.requests import EvaluateRequest
from embedx.cli.streams import request_progress
from embedx.errors import InapplicableError, Setting, Text
from embedx.pages.plain import metric_rows, tab_separated
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.storage.folder import task_of_model

if TYPE_CHECKING:
    from embedx.evaluation.word_report import Report


def evaluate(request: EvaluateRequest) -> None:
    """Print the scores of models on a text, test data, a graph, sessions or sets of words."""
    progress = request_progress(request)
    record: Record = {}
    if request.text is not None:
        _check_applies_to_text(request)
        record["heldout"] = _score_text(request, request.text, progress)
        if not (request.pairs or request.analogies):
            if request.as_json:
                print(json.dumps(record))
            return

    model = request.models[0]
    if request.predictions is not None and request.test is None:
        raise InapplicableError("predictions", None, ("needs ", Setting("test")))
    if request.test is not None or task_of_model(Path(model)) == "classification":
        _score_classifier(request, progress)
        return
    if request.per_label is not None:
        problem = f"is for classifiers; {model} has word vectors"
        raise InapplicableError("per_label", None, problem)
    if request.links or request.node_labels or request.next_item:
        _score_nodes_and_items(request, progress)
        return
    _score_word_sets(request, record, progress)


def _check_applies_to_text(request: EvaluateRequest) -> None:
    """Raise `InapplicableError` if --text is given with what it does not apply to."""
    if request.test is not None:
        problem: Text = ("is for word vectors, ", Setting("test"), " for classifiers")
        raise InapplicableError("text", None, problem, "give one of them")
    if request.against:
        problem = ("does not apply with ", Setting("against"))
        raise InapplicableError("text", None, problem, "give all models as arguments")


def _score_text(request: EvaluateRequest, text: str, progress: Progress) -> Record:
    """The likelihood of a text under each model, of two with the difference, for JSON; without
    --json it is printed too.
    """
    from embedx.cli.training_runs import plain_numbers
    from embedx.evaluation import held_out

    likelihoods = held_out.likelihoods_of(request.models, text, request.seed, progress)
    names = [*request.models]
    metrics = [likelihood.metrics() for likelihood in likelihoods]
    if len(likelihoods) == 2:
        gain = held_out.compare(*likelihoods)
        names = ["model", "other", "difference"]
        metrics.append({"log_likelihood": gain.value, "standard_error": gain.error})
    if not request.as_json:
        heading = [["metric", *names]] if len(names) > 1 else []
        print("\n".join(tab_separated([*heading, *metric_rows(*metrics)])))
    records = [*map(plain_numbers, metrics)]
    return dict(zip(names, records, strict=True)) if len(names) > 1 else records[0]


def _score_classifier(request: EvaluateRequest, progress: Progress) -> None:
    """Print the metrics of a classifier, or of several, on test data."""
    from embedx.cli.labels import tested
    from embedx.cli.training_runs import plain_numbers

    if len(request.models) > 1 or request.against or request.predictions:
        _compare_classifiers(request, progress)
        return
    report = tested(request, progress)
    if request.as_json:
        assert report.analysis is not None
        print(json.dumps({"test": plain_numbers(report), **report.analysis.as_dict()}))
        return
    if sys.stdout.isatty():
        print(report)
        return
    for headline in report.headlines:
        progress.note(headline)
    print("\n".join(tab_separated(metric_rows(report))))


def _compare_classifiers(request: EvaluateRequest, progress: Progress) -> None:
    """Print the metrics of classifiers beside each other; of two also the paired differences."""
    from embedx.cli.labels import compared_metrics
    from embedx.cli.training_runs import plain_numbers

    if request.against:
        problem: Text = ("does not apply with ", Setting("test"))
        raise InapplicableError("against", None, problem, "give all models as arguments")
    report = compared_metrics(request, progress)
    if request.as_json:
        record = {"models": report.sides, "metrics": [*map(plain_numbers, report.metrics)]}
        for name, column in report.columns_of_difference().items():
            record[name] = plain_numbers(column)
        print(json.dumps({"test": record}))
        return
    columns = report.columns()
    rows = [["metric", *columns], *metric_rows(*columns.values())]
    print("\n".join(tab_separated(rows)))


def _score_nodes_and_items(request: EvaluateRequest, progress: Progress) -> None:
    """Print the scores of the vectors of nodes or items."""
    from embedx.evaluation import nodes_and_items

    tests = nodes_and_items.NodeAndItemTests(
        request.links,
        request.non_links,
        request.node_labels,
        request.next_item,
        request.seed,
    )
    scores = nodes_and_items.score_models(request.models, tests, progress)
    if request.as_json:
        print(json.dumps(scores))
    else:
        print("\n\n".join(map(nodes_and_items.as_table, scores.values())))


def _score_word_sets(request: EvaluateRequest, record: Record, progress: Progress) -> None:
    """Print the scores of word vectors on similarity and analogies.

    record  the scores of a text, which are part of the same JSON object
    """
    from embedx.evaluation import words
    from embedx.evaluation.word_sets import WordTests

    models = request.models
    others = request.against or []
    if len(models) == 2 and not others:
        others = models[1:]
        models = models[:1]
    tests = WordTests(
        request.pairs or (),
        request.analogies,
        request.protocol,
        request.method,
        request.restrict_vocab,
        request.seed,
    )
    report = words.evaluate(
        models,
        others,
        tests,
        vectors=request.vectors,
        oov=request.oov,
        trust_pickle=request.trust_pickle,
        progress=progress,
    )
    for warning in report.warnings:
        progress.warn(warning)
    if request.as_json:
        print(json.dumps(record | report.as_dict()))
    else:
        _print_word_scores(report)


def _print_word_scores(report: "Report") -> None:
    """Print a table on a terminal; elsewhere rows, and conclusions on standard error."""
    if sys.stdout.isatty():
        print(report.table())
        return
    print(report.tsv())
    if len(report.models) > 2:
        sides = zip(report.sides, report.models, strict=True)
        print(*(f"{side}: {model}" for side, model in sides), sep=", ", file=sys.stderr)
    for conclusion in report.conclusions():
        print(conclusion, file=sys.stderr)
