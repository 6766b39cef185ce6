"""What the pages of both tasks show about training: figures, settings, losses."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedx.classification.classifier import Classifier
from embedx.evaluation import learning_curves
from embedx.pages import charts as drawing
from embedx.spelling import as_typed
from embedx.vectors.model import WordVectors

Model = Classifier | WordVectors

# Facts at the top of a page, with their titles.
FIGURES = {
    "objective": "objective",
    "training_rows": "training rows",
    "corpus_tokens": "tokens of text",
    "epochs": "epochs",
    "seconds": "seconds of training",
    "words_per_second": "words/s",
    "examples_per_second": "examples/s",
    "final_loss": "loss at the end",
    "baseline_loss": "loss by frequencies alone",
}
# Other titles for items and nodes.
FIGURES_OF_NOUN = {
    "item": {"corpus_tokens": "items in sessions", "words_per_second": "items/s"},
    "node": {"corpus_tokens": "nodes of walks", "words_per_second": "nodes/s"},
}
ABOUT_LOSS = "of training data; each point is the mean over the epoch before it"
SETTINGS = ("setting", "value", "default", "chosen from")
# Facts that are no single values, or are shown elsewhere.
NOT_LISTED = ("history", "loss_curve", "heldout", "reader", "command", "chosen")


def about_model(model: Model, values: Mapping[str, Any]) -> dict[str, Any]:
    """Origin of a model, figures of its run, settings, facts and learning curves, for the template.

    values  from the task; `curve_of` has the scores recorded in the model, by name, `defaults` the
            default settings
    """
    facts = model.facts
    loss = f"loss, {facts['loss_unit']}" if facts.get("loss_unit") else "loss"
    scores = values["curve_of"]
    losses = learning_curves.mean_over_epoch(learning_curves.loss_points(facts))
    curves = {**scores, loss: losses}
    best = {title: learning_curves.best_point(points) for title, points in scores.items()}

    used = settings_used(model, values["defaults"])
    changed = [row for row in used if row[1] != row[2]]

    when = []
    if facts.get("created"):
        when = [f"saved {facts['created']}", f"embedx {facts['version']}"]
    listed_facts = {
        name.replace("_", " "): value for name, value in facts.items() if name not in NOT_LISTED
    }
    return {
        "command": facts.get("command"),
        "when": when,
        "figures_of_run": figures_of_run(model),
        "charts": charts_of({name: {name: points} for name, points in curves.items()}, loss, best),
        "best_epochs": [
            best_epoch(title, points) for title, points in scores.items() if len(points) > 1
        ],
        "changed": [SETTINGS, *changed],
        "settings": [SETTINGS, *used],
        "facts": rows_of("fact", listed_facts),
    }


def styles_of(names: Sequence[str]) -> dict[str, str]:
    """The style of the curve of each model, by the model's name."""
    return {name: drawing.style_of(k) for k, name in enumerate(names)}


def about_pair(models: Sequence[Model], names: Sequence[str]) -> dict[str, Any]:
    """What the page of two models of either task has: runs, settings that differ, losses."""
    facts = [model.facts for model in models]
    figures = [figures_of_run(model) for model in models]
    settings = [
        shown({"objective": run.get("objective"), **model.settings})
        for run, model in zip(facts, models, strict=True)
    ]
    losses = {
        name: learning_curves.mean_over_epoch(learning_curves.loss_points(run))
        for name, run in zip(names, facts, strict=True)
    }
    return {
        "runs": side_by_side("run", names, figures),
        "commands": [run.get("command") for run in facts],
        "settings": side_by_side("setting", names, settings, only_differing=True),
        "charts": charts_of({"training loss": losses}, "training loss"),
        "names": styles_of(names),
        "sides": names,
        "is_one_loss": facts[0].get("objective") == facts[1].get("objective"),
    }


def side_by_side(
    head: str,
    names: Sequence[str],
    values: Sequence[Mapping[str, str]],
    only_differing: bool = False,
) -> list[list[str]]:
    """A table with a row for each name, and its value in each of the two models."""
    values_a, values_b = values
    rows = [[head, *names]]
    for name in {**values_a, **values_b}:
        a = values_a.get(name, "–")
        b = values_b.get(name, "–")
        if a != b or not only_differing:
            rows.append([name.replace("_", "-"), a, b])
    return rows


def charts_of(
    curves: Mapping[str, Mapping[str, learning_curves.Points]],
    loss: str,
    best: Mapping[str, Sequence[float] | None] | None = None,
) -> list[dict[str, Any]]:
    """A chart against epochs for each title of `curves`, and then one against seconds for each.

    curves  by title, by name; those of fewer than two points are left out
    loss    the title under which values fall
    best    by title: the point that is marked
    """
    charts = []
    for against in (drawing.EPOCHS, drawing.SECONDS):
        for k, (title, points_by_name) in enumerate(curves.items()):
            lines = drawing.drawable({name: [points] for name, points in points_by_name.items()})
            if not lines:
                continue
            about = ""
            if title == loss:
                about = ABOUT_LOSS
            chart = drawing.curves_chart(
                lines,
                against,
                title,
                f"plot{k}-{against}",
                title == loss,
                styles_of(list(points_by_name)),
                best=(best or {}).get(title),
                about=about,
            )
            charts.append(chart)
    return charts


def best_epoch(title: str, points: learning_curves.Points) -> str:
    """After which epoch a score was highest, and what it is at the end.

    points  at least one
    """
    best = learning_curves.best_point(points)
    assert best is not None
    end = points[-1]
    highest = f"{capitalized(title)} is highest after epoch {best[drawing.EPOCHS]:.3g}"
    value = f"{best[learning_curves.VALUE]:.4f}"
    if best == end:
        return f"{highest}, the last: {value}."
    return (
        f"{highest}: {value}. At the end, after epoch {end[drawing.EPOCHS]:.3g}, it is"
        f" {end[learning_curves.VALUE]:.4f}."
    )


def capitalized(title: str) -> str:
    """The title as the beginning of a sentence, the rest of it unchanged."""
    return title[:1].upper() + title[1:]


def settings_used(model: Model, defaults: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Each setting of a model, its value, its default, and what it was chosen from, if it was."""
    default_texts = shown(defaults)
    reasons = model.facts.get("chosen", {})
    return [
        (name.replace("_", "-"), value, default_texts.get(name, ""), reasons.get(name, ""))
        for name, value in shown(model.settings).items()
    ]


def figures_of_run(model: Model) -> dict[str, str]:
    """The figures at the top of a page, by title."""
    titles = FIGURES
    if isinstance(model, WordVectors):
        titles = FIGURES | FIGURES_OF_NOUN.get(model.noun, {})
    return shown({title: model.facts.get(name) for name, title in titles.items()})


def rows_of(head: str, values: Mapping[str, Any]) -> list[list[str]]:
    """A table of names and values."""
    return [[head, "value"], *map(list, shown(values).items())]


def shown(values: Mapping[str, Any]) -> dict[str, str]:
    """The values that are known, large numbers with separators."""
    texts = {}
    for name, value in values.items():
        if value is None:
            continue
        texts[name] = f"{value:,}" if type(value) is int else as_typed(value)
    return texts
