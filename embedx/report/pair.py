"""The page of two models of one task: settings that differ, scores with their differences, and
curves side by side.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from embedx.classification.classifier import Classifier
from embedx.evaluation import statistics
from embedx.evaluation.labels import scores_by_groups
from embedx.evaluation.word_report import with_ends
from embedx.labeled.data import Labeled
from embedx.pages import charts as drawing
from embedx.report.labels import by_label, predictions, scores_at_each_k
from embedx.report.settings import ReportSettings
from embedx.report.words import drawn_rows, neighbour_rows
from embedx.training.progress import Progress
from embedx.vectors.model import WordVectors

MEASURES = {
    "p@1": "P@1",
    "p@3": "P@3",
    "p@5": "P@5",
    "ndcg@5": "nDCG@5",
    "log_likelihood": "log-likelihood",
}
SIDES = ["A", "B"]
STYLES = {name: drawing.style_of(k) for k, name in enumerate(SIDES)}
MAX_LABELS = 10  # that gain most, and that lose most


def side_by_side(
    head: str, values: Sequence[Mapping[str, str]], only_differing: bool = False
) -> list[list[str]]:
    """A row for each name, with its value in each model."""
    rows = [
        [name.replace("_", "-"), *(each.get(name, "–") for each in values)]
        for name in {**values[0], **values[1]}
    ]
    return [[head, *SIDES], *(row for row in rows if not only_differing or row[1] != row[2])]


def neighbours(models: Sequence[WordVectors], settings: ReportSettings) -> list[list[str]]:
    """The nearest words by each model, of the words asked for and of random ones that both have."""
    shared = [word for word in models[0].words if word in models[1]]
    drawn = [shared[row] for row in drawn_rows(len(shared), settings.random_words, settings.seed)]
    words, rows = list(dict.fromkeys([*settings.chosen_words, *drawn])), []
    for each in models:
        near = each.most_similar_batch(
            [each.words[each.index(word)] for word in words], settings.nearest
        )
        rows.append(neighbour_rows(each, words, dict(zip(words, near, strict=True)))[1:])
    return [
        ["word", *SIDES],
        *([ours[0], ours[1], theirs[1]] for ours, theirs in zip(*rows, strict=True)),
    ]


def tested(
    models: Sequence[Classifier], data: Sequence[Labeled], progress: Progress
) -> dict[str, Any]:
    """The scores of classifiers on the same test rows, as each reads them: with the intervals of
    paired differences, at each number of predictions, and of the labels that differ most.
    """
    found = [
        scores_by_groups(each.evaluate, rows, MEASURES)
        for each, rows in zip(models, data, strict=True)
    ]
    scores, lines, labels = [["measure", *SIDES, "A - B"]], {}, []
    for name in (name for name in MEASURES if all(name in of for of in found)):
        both = statistics.standings(
            {side: [of[name]] for side, of in zip(SIDES, found, strict=True)}, "B"
        )
        cells = [
            with_ends(name, both[side].score.value, both[side].score.interval()) for side in SIDES
        ]
        if (gain := both["A"].behind) is not None:
            cells.append(with_ends(name, gain.value, gain.interval(), "+"))
        scores.append([MEASURES[name], *cells, "–"][:4])
    for side, model, rows in zip(SIDES, models, data, strict=True):
        top, _, positives, _ = predictions(model, rows, progress)
        lines[side] = [
            [
                (k, k, value)
                for k, value in enumerate(scores_at_each_k(top, positives)["precision"], 1)
            ]
        ]
        labels.append({row[0]: row for row in by_label(model, rows, progress)[1][1:]})
    chart = drawing.curves_chart(
        lines, 0, "precision", "by-k", styles=STYLES, x_label="k, the number of predictions"
    )
    return {"scores": scores, "chart_by_k": chart, "labels": of_labels(*labels)}


def of_labels(
    ours: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """The labels of which A finds the most test rows more than B, and those of which it finds the
    most fewer.
    """

    def gain(name: str) -> float:
        return int(ours[name][2]) * (float(ours[name][5]) - float(theirs[name][5]))

    ordered = sorted(ours.keys() & theirs.keys(), key=lambda name: (-gain(name), name))
    rows = [
        [
            "label",
            "test rows",
            *(f"{measure} of {side}" for measure in ("recall", "F1") for side in SIDES),
        ]
    ]
    for name in dict.fromkeys([*ordered[:MAX_LABELS], *ordered[-MAX_LABELS:]]):
        a, b = ours[name], theirs[name]
        rows.append([name, a[2], a[5], b[5], a[6], b[6]])
    return rows
