"""The page of a classifier."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from embedx.classification.classifier import Classifier
from embedx.evaluation import learning_curves
from embedx.evaluation.answers import THIRDS, UNSEEN, FrequencyBin, Reliability, bin_of_labels
from embedx.evaluation.labels import likelihood_warning
from embedx.pages.curves import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from embedx.pages.document import document, figures, note, table
from embedx.report import sections
from embedx.report.labels import Example, LabelFindings

MOST_ROWS = 25  # of a table of labels
DASH = "–"
NO_CURVE = (
    "The folder records none. Training with --validation 0.1 records scores of validation data after each epoch; embedx report "
    "--log-json FILE reads the loss from what training with the same option wrote."
)
NO_TEST = "With --test FILE the page has metrics, labels that are missed and confused, reliability and examples."
BY_FREQUENCY = (
    "Head, middle and tail are labels, from the most frequent on, that have about a third of all occurrences in training each. "
    "Recall at k: the share of their occurrences in test rows that is among the k best answers; precision: the share that is "
    "right of the first answers with a label of the bin."
)
MISSED = (
    "A label counts as found if it is among as many best answers as its row has labels (at most ten). “Instead” is the wrong "
    "answer that was most often among these where it was missed."
)
CONFUSED = (
    "Rows that have the label, which was not found, and have the wrong answer among as many best answers as they have labels."
)
PALE = 0.35  # opacity of the bar of a bin with few answers


def page(name: str, path: Path, classifier: Classifier, found: LabelFindings | None, logged: list[list[float]]) -> str:
    """The page of the classifier in the folder `path`; `found` is None without test data, and `logged` is the loss on the way,
    if a log was given.
    """
    body = [figures(key_figures(classifier, found))]
    body += [f"<p>{escape(NO_TEST)}</p>", *in_training(classifier)] if found is None else tested(classifier, found)
    facts = classifier.facts
    body += sections.curves(
        [
            ("validation P@1", learning_curves.validation_points(facts, "p@1"), False),
            ("validation log-likelihood", learning_curves.validation_points(facts, "log_likelihood"), False),
            ("loss" + sections.unit_of_loss(facts), logged or learning_curves.loss_points(facts), True),
        ],
        NO_CURVE,
    )
    body += sections.files(classifier.arrays, path)
    body += sections.settings_and_facts(classifier.settings, facts)
    return document(f"Classifier {name}", body)


def key_figures(classifier: Classifier, found: LabelFindings | None) -> dict[str, str]:
    """What one looks at first."""
    facts = classifier.facts
    first = {"objective": classifier.objective.name, "labels": f"{classifier.n_labels:,}"}
    if facts.get("examples"):
        first["training rows"] = f"{facts['examples']:,}"
    if found is not None:
        first["test rows"] = f"{found.rows:,}"
        shown = {"p@1": "P@1", "p@5": "P@5", "log_likelihood": "log-likelihood"}
        first |= {told: f"{found.metrics[name]:.4f}" for name, told in shown.items() if name in found.metrics}
    return first | sections.pace(facts, "examples")


def tested(classifier: Classifier, found: LabelFindings) -> list[str]:
    """All that test data tell."""
    rows = [["metric", "value"], *([name.replace("_", " "), number(value)] for name, value in found.metrics.items())]
    parts = [f"<h2>Scores on {escape(Path(found.source).name)}</h2>"]
    parts += ['<div class="charts"><div>', table(rows, names=("metric",)), "</div><figure>"]
    parts += [reliability_diagram(found.reliability), f"<figcaption>{escape(told_of(classifier, found))}</figcaption>"]
    parts.append("</figure></div>")
    if warning := likelihood_warning(found.metrics, classifier.n_labels):
        parts.append(note(f"Warning: {warning}."))
    parts += ["<h2>By label frequency</h2>", frequency_table(found.bins), note(BY_FREQUENCY)]
    if found.missed:
        parts += ["<h2>Labels missed most often</h2>", missed_table(classifier, found), note(MISSED)]
    if found.confusions:
        parts += ["<h2>Labels confused most often</h2>", confused_table(found), note(CONFUSED)]
    if found.mistakes:
        parts += ["<h2>The surest mistakes</h2>", example_table(found.mistakes)]
        parts.append(note("Wrong first answers of the highest probability. A row is its number in the test data, from 0 on."))
    if found.examples:
        parts += ["<h2>Examples</h2>", example_table(found.examples)]
        parts.append(note("Rows drawn at random, with the best answers and their probabilities; ✓ marks labels of the row."))
    return parts


def number(value: float) -> str:
    """A count, or a metric with four decimals."""
    if not math.isfinite(value):
        return DASH
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %" if math.isfinite(value) else DASH


def span(fewest: int, most: int) -> str:
    """`3 to 12`, or one number where both are the same."""
    return f"{fewest:,} to {most:,}" if fewest < most else f"{most:,}"


def in_training(classifier: Classifier) -> list[str]:
    """How often labels occur in training: by frequency, and the most frequent ones."""
    bins = bin_of_labels(classifier.counts)[:-1]
    rows = [["labels", "how many", "training rows of a label", "of all occurrences"]]
    for k, name in enumerate((*THIRDS, UNSEEN)):
        if len(own := classifier.counts[bins == k]):
            share = float(own.sum() / max(classifier.counts.sum(), 1))
            rows.append([name, f"{len(own):,}", span(int(own.min()), int(own.max())), percent(share)])
    first = np.argsort(-classifier.counts, kind="stable")[:MOST_ROWS].tolist()
    frequent = [["label", "training rows"], *([classifier.name(k), f"{classifier.counts[k]:,}"] for k in first)]
    parts = ["<h2>Labels in training</h2>", table(rows, names=("labels",)), note(BY_FREQUENCY.partition(" Recall")[0])]
    return [*parts, "<h3>The most frequent</h3>", table(frequent, names=("label",))]


def frequency_table(bins: Sequence[FrequencyBin]) -> str:
    """A row for each bin."""
    ks = list(bins[0].recall) if bins else []
    rows = [["labels", "how many", "training rows of a label", "in test rows", *(f"recall at {k}" for k in ks)]]
    rows[0] += ["first answers", "precision"]
    for each in bins:
        counted = [f"{each.labels:,}", span(each.fewest, each.most), f"{each.occurrences:,}"]
        recall = [percent(each.recall[k]) for k in ks]
        rows.append([each.name, *counted, *recall, f"{each.answered:,}", percent(each.precision)])
    return table(rows, names=("labels",))


def missed_table(classifier: Classifier, found: LabelFindings) -> str:
    """The labels that were not found in most rows."""
    rows = [["label", "missed", "in test rows", "found", "training rows", "instead"]]
    for each in found.missed[:MOST_ROWS]:
        trained = int(classifier.counts[each.label]) if each.label < classifier.n_labels else 0
        instead = DASH if each.instead is None else found.names[each.instead]
        share = percent(1 - each.missed / each.occurrences)
        rows.append([found.names[each.label], f"{each.missed:,}", f"{each.occurrences:,}", share, f"{trained:,}", instead])
    return table(rows, names=("label", "instead"))


def confused_table(found: LabelFindings) -> str:
    """The pairs of a label and a wrong answer that occur in most rows."""
    rows = [["label", "wrong answer", "rows"]]
    rows += [[found.names[each.label], found.names[each.answer], f"{each.rows:,}"] for each in found.confusions[:MOST_ROWS]]
    return table(rows, names=("label", "wrong answer"))


def example_table(examples: Sequence[Example]) -> str:
    """A row for each example, with the words that weigh most where features are words."""
    has_words = any(each.features for each in examples)
    rows = [["row", "labels", "best answers", *(["words"] * has_words)]]
    for each in examples:
        answers = ", ".join(f"{label} {p:.3f}{' ✓' if right else ''}" for label, p, right in each.answers)
        words = [" ".join(each.features)] if has_words else []
        rows.append([f"{each.row:,}", ", ".join(each.labels) or DASH, answers, *words])
    named = ("labels", "best answers", "words")
    return table(rows, names=named, texts=named)


# ---- reliability


def told_of(classifier: Classifier, found: LabelFindings) -> str:
    """What the diagram shows, and what is to be known of its probabilities."""
    told = (
        "Reliability: first answers by their probability, and how many were right; on the diagonal both agree. The "
        f"stronger the colour the more answers. Expected calibration error {number(found.reliability.error)} over "
        f"{found.reliability.n.sum():,} labelled rows."
    )
    if "calibration" in classifier.arrays:
        return f"{told} Probabilities are calibrated on rows that were held out of training."
    if not classifier.objective.calibrated:
        told += f" {classifier.objective.name} has no probabilities of its own: these are a softmax of its scores."
    elif classifier.facts.get("several_labels") and not classifier.judges_labels_alone:
        told += " Labels share one probability, so that with several labels a row answers are right more often than probable."
    return told


def reliability_diagram(found: Reliability) -> str:
    """Bars of how many answers were right by how probable they were, a point at their mean probability, and the diagonal."""
    bins, across, down = len(found.n), WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(value: float) -> float:
        return LEFT + across * value

    def y(value: float) -> float:
        return TOP + down * (1 - value)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="share of right answers against probability">']
    for tick in np.linspace(0, 1, 6).tolist():
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
        parts.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:.1f}</text>')
    most = max(int(found.n.max(initial=0)), 1)
    for k in np.flatnonzero(found.n).tolist():
        right, probable, n = float(found.accuracy[k]), float(found.confidence[k]), int(found.n[k])
        title = f"{n:,} answers of probability {k / bins:.1f} to {(k + 1) / bins:.1f}: {percent(right)} right"
        opacity = PALE + (1 - PALE) * n / most
        parts.append(
            f'<rect class="bar" x="{x(k / bins) + 1:.1f}" y="{y(right):.1f}" width="{across / bins - 2:.1f}" '
            f'height="{down * right:.1f}" fill-opacity="{opacity:.2f}"><title>{escape(title)}</title></rect>'
        )
        parts.append(f'<circle class="mean" cx="{x(probable):.1f}" cy="{y(right):.1f}" r="3.5"/>')
    parts.append(f'<line class="curve dashed c1" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>')
    parts.append(f'<text x="{x(0.5):.0f}" y="{HEIGHT - 6}" text-anchor="middle">probability of the first answer</text>')
    return "\n".join([*parts, "</svg>"])
