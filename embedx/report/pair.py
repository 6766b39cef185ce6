"""The page of two models of one task: settings that differ, scores with their differences, and losses side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedx.classification.classifier import Classifier
from embedx.evaluation import learning_curves, statistics
from embedx.evaluation.labels import scores_by_groups
from embedx.evaluation.word_report import with_ends
from embedx.labeled.data import Labeled
from embedx.pages import charts as drawing
from embedx.report.labels import predictions, scores_at_each_k
from embedx.report.settings import ReportSettings
from embedx.report.words import drawn_rows, number
from embedx.training.progress import Progress
from embedx.vectors.model import WordVectors

MEASURES = {
    "p@1": "P@1", "p@3": "P@3", "p@5": "P@5", "ndcg@5": "nDCG@5", "log_likelihood": "log-likelihood"
}  # fmt: skip
SIDES = ["A", "B"]
MAX_LABELS = 10  # that gain most, and that lose most
DASH = "–"


def side_by_side(head: str, values: Sequence[Mapping[str, str]], only_differing: bool = False) -> list[list[str]]:
    """A row for each name, with its value in each model."""
    names = dict.fromkeys(name for each in values for name in each)
    rows = [[name.replace("_", "-"), *(each.get(name, DASH) for each in values)] for name in names]
    return [[head, *SIDES], *(row for row in rows if not only_differing or row[1] != row[2])]


def loss_charts(models: Sequence[Any]) -> list[dict[str, Any]]:
    """The training loss of each that has a curve, against epochs and against seconds."""
    points = {name: [learning_curves.loss_points(each.facts)] for name, each in zip(SIDES, models, strict=True)}
    found = drawing.drawable(points)
    styles = {name: style for name, style in styles_of().items() if name in found}
    return [
        drawing.curves_chart(found, against, "training loss", f"loss{against}", falls=True, styles=styles) | {"names": styles}
        for against in (drawing.EPOCHS, drawing.SECONDS)
        if found
    ]


def styles_of() -> dict[str, str]:
    return {name: drawing.style_of(k) for k, name in enumerate(SIDES)}


def neighbours(models: Sequence[WordVectors], settings: ReportSettings) -> list[list[str]]:
    """The nearest words by each model, of the words asked for and of random ones that both have."""
    for word in settings.chosen_words:
        _ = [each.index(word) for each in models]  # refuses unknown words
    shared = [word for word in models[0].words if word in models[1]]
    drawn = [shared[row] for row in drawn_rows(len(shared), settings.random_words, settings.seed)]
    words = list(dict.fromkeys([*settings.chosen_words, *drawn]))
    near = [each.most_similar_batch(words, settings.nearest) if words else [] for each in models]
    rows = [["word", *SIDES, "in common"]]
    for word, *found in zip(words, *near, strict=True):
        shown = [", ".join(f"{other} ({cosine:.2f})" for other, cosine in each) for each in found]
        rows.append([word, *shown, str(len({other for other, _ in found[0]} & {other for other, _ in found[1]}))])
    return rows


def tested(models: Sequence[Classifier], data: Sequence[Labeled], progress: Progress) -> dict[str, Any]:
    """The scores of classifiers on the same test rows, as each reads them: with the intervals of paired differences, at each
    number of predictions, and by label.
    """
    found = [scores_by_groups(each.evaluate, rows, MEASURES) for each, rows in zip(models, data, strict=True)]
    rows = [["measure", *SIDES, "A - B"]]
    for name in (each for each in MEASURES if all(each in of for of in found)):
        ours, theirs = ([of[name]] for of in found)
        estimates = [statistics.estimate(each, statistics.Error(0.0, 0)) for each in (ours, theirs)]
        gain = statistics.difference(ours, theirs, statistics.Error(0.0, 0))
        cells = [with_ends(name, each.value, each.interval()) for each in estimates]
        rows.append([MEASURES[name], *cells, with_ends(name, gain.value, gain.interval(), "+") if gain else DASH])
    lines = {}
    for side, model, each in zip(SIDES, models, data, strict=True):
        best = predictions(model, each, progress)
        precision = scores_at_each_k(best.top, best.labels)["precision"]
        lines[side] = [[(k, k, value) for k, value in enumerate(precision, 1)]]
    chart = drawing.curves_chart(lines, 0, "precision", "by-k", styles=styles_of(), x_label="k, the number of predictions")
    return {"scores": rows, "chart_by_k": chart, "labels": by_label(models, data, progress)}


def by_label(models: Sequence[Classifier], data: Sequence[Labeled], progress: Progress) -> dict[str, list[list[str]]]:
    """The labels that more test rows rightly get from A than from B, most first, and the other way round."""
    sides: list[dict[str, tuple[int, int, float]]] = []  # of each label: right, true, F1
    for model, each in zip(models, data, strict=True):
        if model.facts.get("several_labels") and not model.has_probabilities:
            return {}
        _, counts = model.evaluate_decisions(each, progress=progress)
        columns = zip(counts.right.tolist(), counts.true.tolist(), counts.f1.tolist(), strict=True)
        sides.append(dict(zip(map(model.name, range(model.n_labels)), columns, strict=False)))
    none, found = (0, 0, 0.0), {}
    for k, title in enumerate(SIDES):
        ours, theirs = sides[k], sides[1 - k]
        lead = {name: each[0] - theirs.get(name, none)[0] for name, each in ours.items()}
        better = sorted((name for name in lead if lead[name] > 0), key=lead.__getitem__, reverse=True)
        rows = [["label", "test rows", "right by A", "right by B", "F1 of A", "F1 of B"]]
        for name in better[:MAX_LABELS]:
            a, b = (side.get(name, none) for side in sides)
            rows.append([name, f"{ours[name][1]:,}", f"{a[0]:,}", f"{b[0]:,}", number(a[2]), number(b[2])])
        if better:
            found[title] = rows
    return found
