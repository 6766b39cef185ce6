"""`embedx report`: the page about a model folder, and what the pages of both tasks have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx.classification import model_folder
from embedx.classification.classifier import Classifier, load
from embedx.errors import DataError, InapplicableError, Setting
from embedx.evaluation import learning_curves
from embedx.evaluation.word_sets import WordTests
from embedx.labeled.read import read
from embedx.pages import charts as drawing
from embedx.pages.document import render
from embedx.report import labels, pair, words
from embedx.report.settings import LABEL_SETTINGS, WORD_SETTINGS, ReportSettings
from embedx.runtime.atomic import followed, write_text
from embedx.runtime.progress import Progress, Silent
from embedx.settings import as_typed
from embedx.storage.folder import present, task_of
from embedx.storage.outputs import check_file
from embedx.vectors import model as vectors
from embedx.vectors.model import WordVectors

Model = Classifier | WordVectors

SUFFIX = ".report.html"
# facts at the top of a page, with their titles
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
SETTINGS = ("setting", "value", "default", "chosen from")
# facts that are not single values, or shown elsewhere
SHOWN_ALONE = ("history", "loss_curve", "heldout", "reader", "command", "chosen")

# what messages call the two kinds of models
WORD_VECTORS = "word vectors"
CLASSIFIER = "a classifier"
# options for models of one task only
OPTIONS_OF_WORDS: Sequence[str] = (*WORD_SETTINGS, "pairs", "analogies")
OPTIONS_OF_LABELS: Sequence[str] = (*LABEL_SETTINGS, "test", "test_labels")


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
    """The file of a page about the model in a folder, word vectors or a classifier.

    The page needs no other file.

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
    settings = ReportSettings(**options)
    progress = progress or Silent()
    models = [model] if other is None else [model, other]
    folders = [present(Path(name)) for name in models]
    page = Path(output or default_output(*models))

    task = common_task(models, folders)
    test_sets = {"pairs": pairs, "analogies": analogies, "test": test, "test_labels": test_labels}
    check_options(model, task, {**test_sets, **options})
    if test_labels is not None and test is None:
        raise InapplicableError("test_labels", None, ("needs ", Setting("test")))
    inputs = [*models, test, test_labels, *(pairs or []), analogies]
    check_file(page, overwrite, [name for name in inputs if name is not None])

    if task == model_folder.TASK:
        classifiers = [load(folder) for folder in folders]
        if other is None:
            values = labels.findings(classifiers[0], test, test_labels, settings, progress)
            html = single_page(
                "labels.html", f"Classifier {name_of(model)}", classifiers[0], values
            )
        else:
            values = compare_classifiers(classifiers, test, test_labels, progress)
            html = pair_page(models, values)
    else:
        loaded = [vectors.load_folder(folder) for folder in folders]
        tests = WordTests(pairs or [], analogies)
        if other is None:
            values = words.findings(loaded[0], folders[0], settings, tests, progress)
            html = single_page("words.html", f"Word vectors {name_of(model)}", loaded[0], values)
        else:
            values = compare_vectors(loaded, folders, settings, tests, progress)
            html = pair_page(models, values)
    write_text(page, html)
    return page


# ---- refusals


def common_task(models: Sequence[str | Path], folders: Sequence[Path]) -> str:
    """The task of all the models; raises `EmbedxError` where there is none."""
    task, *others = known_tasks(models, folders)
    for name, other_task in zip(models[1:], others, strict=True):
        if other_task != task:
            raise DataError(
                name,
                None,
                f"{kind_of(other_task)}, but {models[0]} is {kind_of(task)}",
                "only models of one task can be compared",
            )
    return task


def known_tasks(models: Sequence[str | Path], folders: Sequence[Path]) -> list[str]:
    """The task of each model; raises `EmbedxError` for a folder without a model."""
    tasks = []
    for name, folder, task in zip(models, folders, list(map(task_of, folders)), strict=True):
        if task is None:
            raise DataError(
                name,
                None,
                f"{why_no_model(folder)}",
                "give a folder that `embedx train` or `embedx classify` wrote",
            )
        tasks.append(task)
    return tasks


def why_no_model(folder: Path) -> str:
    """What is in the place of a model."""
    if folder.is_file():
        return "a file"
    return "not a model folder" if folder.exists() else "no such folder"


def check_options(model: str | Path, task: str, options: Mapping[str, Any]) -> None:
    """Raise `EmbedxError` if one of the options is for models of the other task."""
    if task == model_folder.TASK:
        inapplicable = OPTIONS_OF_WORDS
        kind_of_option = WORD_VECTORS
    else:
        inapplicable = OPTIONS_OF_LABELS
        kind_of_option = CLASSIFIER
    for name in inapplicable:
        if options.get(name) not in (None, []):
            remedy = f"{model} is {kind_of(task)}"
            raise InapplicableError(name, None, f"is for {kind_of_option}", remedy)


def kind_of(task: str) -> str:
    """What messages call a model of a task."""
    return CLASSIFIER if task == model_folder.TASK else WORD_VECTORS


# ---- pages


def single_page(template: str, title: str, model: Model, values: Mapping[str, Any]) -> str:
    """The page of one model, as HTML."""
    return render(template, title, **values, **about_model(model, values))


def pair_page(models: Sequence[str | Path], values: Mapping[str, Any]) -> str:
    """The page of two models, as HTML."""
    title = " and ".join(map(name_of, models))
    return render("pair.html", title, **values, models=dict(zip(pair.SIDES, models, strict=True)))


def compare_classifiers(
    classifiers: Sequence[Classifier],
    test: str | None,
    test_labels: str | None,
    progress: Progress,
) -> dict[str, Any]:
    """What the page of two classifiers shows, for its template."""
    values = about_pair(classifiers)
    if test is None:
        return values
    data = [
        read(test, test_labels, progress=progress, like=classifier.known)
        for classifier in classifiers
    ]
    return values | {"source": Path(test).name, **pair.tested(classifiers, data, progress)}


def compare_vectors(
    models: Sequence[WordVectors],
    folders: Sequence[Path],
    settings: ReportSettings,
    tests: WordTests,
    progress: Progress,
) -> dict[str, Any]:
    """What the page of two models of word vectors shows, for its template."""
    values = about_pair(models)
    scores, reason = words.scores_of(folders, tests, progress)
    values["neighbours"] = pair.neighbours(models, settings)
    values["no_scores"] = reason
    if scores:
        values["scores"] = scores.rows()
        values["conclusions"] = scores.conclusions()
    return values


def about_pair(models: Sequence[Model]) -> dict[str, Any]:
    """What the page of two models of either task has: runs, settings that differ, losses."""
    facts = [model.facts for model in models]
    figures = [figures_of_run(model) for model in models]
    settings = [shown(model.settings) for model in models]
    losses = dict(zip(pair.SIDES, map(learning_curves.loss_points, facts), strict=True))
    return {
        "runs": pair.side_by_side("run", figures),
        "commands": [run.get("command") for run in facts],
        "settings": pair.side_by_side("setting", settings, only_differing=True),
        "charts": charts_of({"training loss": losses}, "training loss"),
        "names": pair.STYLES,
        "is_one_loss": facts[0].get("objective") == facts[1].get("objective"),
    }


def charts_of(
    curves: Mapping[str, Mapping[str, learning_curves.Points]], loss: str
) -> list[dict[str, Any]]:
    """A chart against epochs and one against seconds for each title of `curves`.

    curves  by title, by name; those of fewer than two points are left out
    loss    the title under which values fall
    """
    charts = []
    for k, (title, points_by_name) in enumerate(curves.items()):
        lines = drawing.drawable({name: [points] for name, points in points_by_name.items()})
        if not lines:
            continue
        for against in (drawing.EPOCHS, drawing.SECONDS):
            chart = drawing.curves_chart(
                lines, against, title, f"plot{k}-{against}", title == loss, pair.STYLES
            )
            charts.append(chart)
    return charts


def about_model(model: Model, values: Mapping[str, Any]) -> dict[str, Any]:
    """Origin of a model, figures of its run, settings, facts and learning curves, for the template.

    values  from the task; `curve_of` has the scores recorded in the model, by name, `defaults` the
            default settings
    """
    facts = model.facts
    loss = f"loss, {facts['loss_unit']}" if facts.get("loss_unit") else "loss"
    curves = {**values["curve_of"], loss: learning_curves.loss_points(facts)}

    used = settings_used(model, values["defaults"])
    changed = [row for row in used if row[1] != row[2]]

    when = []
    if facts.get("created"):
        when = [f"saved {facts['created']}", f"embedx {facts['version']}"]
    listed_facts = {
        name.replace("_", " "): value for name, value in facts.items() if name not in SHOWN_ALONE
    }
    return {
        "command": facts.get("command"),
        "when": when,
        "figures_of_run": figures_of_run(model),
        "charts": charts_of({name: {name: points} for name, points in curves.items()}, loss),
        "changed": [SETTINGS, *changed],
        "settings": [SETTINGS, *used],
        "facts": rows_of("fact", listed_facts),
    }


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
    return shown({title: model.facts.get(name) for name, title in FIGURES.items()})


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


def name_of(model: str | Path) -> str:
    """What a model is called on its page: the name of its folder without .embedx."""
    return followed(Path(model)).name.removesuffix(".embedx") or "model"


def default_output(*models: str | Path) -> Path:
    """`corpus.ns.report.html` in the working folder for `…/corpus.ns.embedx`."""
    return Path("-".join(map(name_of, models)) + SUFFIX)
