"""`embedx report`: the page about a model folder, and what the pages of both tasks have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx.classification import classifier as classification
from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves
from embedx.labeled.read import read
from embedx.pages import charts as drawing
from embedx.pages.document import render
from embedx.report import labels, pair, words
from embedx.report.settings import OF_LABELS, OF_WORDS, ReportSettings
from embedx.settings import as_typed, option_name
from embedx.storage.atomic import followed, write_text
from embedx.storage.folder import present, task_of
from embedx.storage.outputs import check_file
from embedx.training.progress import Progress, Silent
from embedx.vectors import model as vectors

SUFFIX = ".report.html"
FIGURES = {  # facts at the top of a page
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
SETTINGS = ("setting", "value", "default")
# facts that are not single values, or shown elsewhere
SHOWN_ALONE = ("history", "loss_curve", "heldout", "reader", "command")


def report(
    model: str | Path,
    output: str | Path | None = None,
    *,
    other: str | Path | None = None,
    test: str | None = None,
    test_labels: str | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Path:
    """One page about the model in a folder, of word vectors or a classifier; the file, which needs
    nothing else.

    output     the file; by default that of `default_output`, in the working folder
    other      a second model of the same task, with which the page compares the first
    test       classifiers: data to score, in any format that `embedx classify` reads, and
               `test_labels` beside them
    pairs      word vectors: files of word pairs, and `analogies` of questions, instead of the
               packaged sets
    options    settings of `ReportSettings` by name: `words="city,music"`, `projection="tsne"`, ...

    Raises `EmbedxError` for a folder without a model, for what does not apply to its task, and for
    a file that exists, unless it is to be overwritten, or cannot be written. It appears when it is
    complete.
    """
    settings, progress = ReportSettings(**options), progress or Silent()
    models = [model] if other is None else [model, other]
    folders, out = [present(Path(each)) for each in models], Path(output or default_output(*models))
    tasks = list(map(task_of, folders))
    for name, folder, task in zip(models, folders, tasks, strict=True):
        if task is None:
            what = (
                "a file"
                if folder.is_file()
                else "not a model folder"
                if folder.exists()
                else "no such folder"
            )
            raise EmbedxError(
                f"{name}: {what}; give a folder that `embedx train` or `embedx classify` wrote"
            )
    is_classifier = tasks[0] == classification.TASK
    kinds = ("word vectors", "a classifier")[:: 1 if is_classifier else -1]
    if tasks[0] != tasks[-1]:
        raise EmbedxError(
            f"{other}: {kinds[0]}, but {model} is {kinds[1]}; only models of one task can be"
            " compared"
        )
    given = {
        "pairs": pairs,
        "analogies": analogies,
        "test": test,
        "test_labels": test_labels,
        **options,
    }
    for name in (
        (*OF_WORDS, "pairs", "analogies") if is_classifier else (*OF_LABELS, "test", "test_labels")
    ):
        if given.get(name) not in (None, []):
            raise EmbedxError(f"{option_name(name)} is for {kinds[0]}; {model} is {kinds[1]}")
    if test_labels is not None and test is None:
        raise EmbedxError("--test-labels needs --test")
    inputs = [*models, test, test_labels, *(pairs or []), analogies]
    check_file(out, overwrite, [name for name in inputs if name is not None])
    loaded: list[Any] = [
        classification.load(each) if is_classifier else vectors.load_folder(each)
        for each in folders
    ]
    if other is not None:
        found = about_pair(loaded)
        if not is_classifier:
            scores, why = words.scores_of(folders, pairs or [], analogies, progress)
            found |= {"neighbours": pair.neighbours(loaded, settings), "no_scores": why}
            found |= (
                {"scores": scores.rows(), "conclusions": scores.conclusions()} if scores else {}
            )
        elif test is not None:
            data = [read(test, test_labels, progress=progress, like=each.known) for each in loaded]
            found |= {"source": Path(test).name, **pair.tested(loaded, data, progress)}
        found["models"] = dict(zip(pair.SIDES, models, strict=True))
        template, title = "pair.html", f"{name_of(model)} and {name_of(other)}"
    elif is_classifier:
        found, template = (
            labels.findings(loaded[0], test, test_labels, settings, progress),
            "labels.html",
        )
        title = f"Classifier {name_of(model)}"
    else:
        found, template = (
            words.findings(loaded[0], folders[0], settings, pairs or [], analogies, progress),
            "words.html",
        )
        title = f"Word vectors {name_of(model)}"
    write_text(
        out,
        render(
            template, title, **found, **(about_model(loaded[0], found) if other is None else {})
        ),
    )
    return out


def about_pair(models: Sequence[Any]) -> dict[str, Any]:
    """What the page of two models of either task has: runs, settings that differ, losses."""
    facts = [each.facts for each in models]
    figures = [shown({title: each.get(name) for name, title in FIGURES.items()}) for each in facts]
    losses = dict(zip(pair.SIDES, map(learning_curves.loss_points, facts), strict=True))
    return {
        "runs": pair.side_by_side("run", figures),
        "commands": [each.get("command") for each in facts],
        "settings": pair.side_by_side(
            "setting", [shown(each.settings) for each in models], only_differing=True
        ),
        "charts": charts_of({"training loss": losses}, "training loss"),
        "names": pair.STYLES,
        "is_one_loss": facts[0].get("objective") == facts[1].get("objective"),
    }


def charts_of(
    curves: Mapping[str, Mapping[str, learning_curves.Points]], loss: str
) -> list[dict[str, Any]]:
    """Charts of curves by what they show, each by names, against epochs and against seconds; a
    `loss` falls.
    """
    found = {
        title: drawing.drawable({name: [points] for name, points in of.items()})
        for title, of in curves.items()
    }
    return [
        drawing.curves_chart(of, against, title, f"plot{k}-{against}", title == loss, pair.STYLES)
        for k, (title, of) in enumerate(found.items())
        if of
        for against in (drawing.EPOCHS, drawing.SECONDS)
    ]


def about_model(model: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Where a model is from, figures of the run, settings, facts and learning curves, for the
    template.

    found  by the task; its `curve_of` has the scores recorded in the model, by name, `defaults` the
           default settings
    """
    facts = model.facts
    loss = f"loss, {facts['loss_unit']}" if facts.get("loss_unit") else "loss"
    curves = {**found["curve_of"], loss: learning_curves.loss_points(facts)}
    defaults = shown(found["defaults"])
    used = [
        (name.replace("_", "-"), value, defaults.get(name, ""))
        for name, value in shown(model.settings).items()
    ]
    return {
        "command": facts.get("command"),
        "when": (
            [f"saved {facts['created']}", f"embedx {facts['version']}"]
            if facts.get("created")
            else []
        ),
        "figures_of_run": shown({title: facts.get(name) for name, title in FIGURES.items()}),
        "charts": charts_of({name: {name: points} for name, points in curves.items()}, loss),
        "changed": [SETTINGS, *(row for row in used if row[1] != row[2])],
        "settings": [SETTINGS, *used],
        "facts": rows_of(
            "fact",
            {
                name.replace("_", " "): value
                for name, value in facts.items()
                if name not in SHOWN_ALONE
            },
        ),
    }


def rows_of(head: str, values: Mapping[str, Any]) -> list[list[str]]:
    """A table of names and values."""
    return [[head, "value"], *map(list, shown(values).items())]


def shown(values: Mapping[str, Any]) -> dict[str, str]:
    """The values that are known, large numbers with separators."""
    known = {name: value for name, value in values.items() if value is not None}
    return {
        name: f"{value:,}" if type(value) is int else as_typed(value)
        for name, value in known.items()
    }


def name_of(model: str | Path) -> str:
    """What a model is called on its page: the name of its folder without .embedx."""
    return followed(Path(model)).name.removesuffix(".embedx") or "model"


def default_output(*models: str | Path) -> Path:
    """`corpus.ns.report.html` in the working folder for `…/corpus.ns.embedx`."""
    return Path("-".join(map(name_of, models)) + SUFFIX)
