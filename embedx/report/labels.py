"""What a page tells of a classifier's answers to test data."""

from dataclasses import dataclass

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.evaluation import answers
from embedx.evaluation.answers import Confusion, FrequencyBin, Missed, Reliability
from embedx.labeled.data import Labeled
from embedx.labeled.read import read
from embedx.report.settings import ReportSettings
from embedx.training.progress import Progress

ANSWERS = 10  # looked at for each row
SHOWN_ANSWERS = 5
SHOWN_FEATURES = 12  # words of a row, those of the largest values
MISTAKES = 10


@dataclass(frozen=True)
class Example:
    """A test row with its answers."""

    row: int  # of the test data, from 0
    labels: list[str]
    answers: list[tuple[str, float, bool]]  # label, probability, whether the row has it
    features: list[str]  # the words that weigh most, where features are words


@dataclass(frozen=True)
class LabelFindings:
    """What is found out of a classifier on test data, to be shown."""

    source: str
    rows: int
    metrics: dict[str, float]
    bins: list[FrequencyBin]
    confusions: list[Confusion]
    missed: list[Missed]
    reliability: Reliability
    examples: list[Example]  # drawn evenly
    mistakes: list[Example]  # the wrong first answers of the highest probability
    names: list[str]  # of labels, by id, those beyond the classifier's own too


def find_out(
    classifier: Classifier, source: str, test_labels: str | None, settings: ReportSettings, progress: Progress
) -> LabelFindings:
    """All that the page of a classifier shows of its answers to test data."""
    data = read(source, test_labels, progress=progress, like=classifier.known)
    metrics = classifier.evaluate(data, progress=progress)
    labels, kept = classifier.tested_labels(data.labels)
    data = data.rows(kept) if len(kept) < len(data) else data
    found = list(classifier.top_k(data.features, ANSWERS, progress))
    n_answers = min(ANSWERS, classifier.n_labels)
    top = np.concatenate([ids for ids, _ in found]) if found else np.zeros((0, n_answers), np.int32)
    probability = np.concatenate([values for _, values in found]) if found else np.zeros((0, n_answers), np.float32)
    is_right = answers.hits(top, labels)
    labelled = np.flatnonzero(labels.n_of_row)
    confused = answers.confusions(top, labels)
    width = max(classifier.n_labels, int(labels.ids.max(initial=-1)) + 1)
    names = [classifier.name(k) for k in range(classifier.n_labels)]
    names += [f"unknown label {k}" for k in range(len(names), width)]
    drawn = np.random.default_rng(settings.seed).permutation(len(data))[: settings.examples]
    wrong = labelled[~is_right[labelled, 0]]
    surest = wrong[np.argsort(-probability[wrong, 0], kind="stable")][:MISTAKES]

    def example(row: int) -> Example:
        best = zip(top[row], probability[row], is_right[row], strict=True)
        return Example(
            int(kept[row]), [names[k] for k in labels[row]],
            [(names[k], float(p), bool(right)) for k, p, right in best][:SHOWN_ANSWERS], heaviest(data, row),
        )  # fmt: skip

    return LabelFindings(
        source, len(data), metrics, answers.by_frequency(top, labels, classifier.counts), confused,
        answers.most_missed(top, labels, confused),
        answers.reliability(probability[labelled, 0].astype(np.float64), is_right[labelled, 0]),
        [example(row) for row in np.sort(drawn)], [example(row) for row in surest], names,
    )  # fmt: skip


def heaviest(data: Labeled, row: int) -> list[str]:
    """The words of a row that have the largest values, the largest first; none where features are no words."""
    if data.vocabulary is None or not data.is_sparse:
        return []
    start, end = data.features.indptr[row : row + 2]
    order = np.argsort(-data.features.data[start:end], kind="stable")[:SHOWN_FEATURES]
    return [data.vocabulary[k] for k in data.features.indices[start:end][order]]
