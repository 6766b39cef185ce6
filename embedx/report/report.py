"""`embedx report`: the page about a model folder, or about two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx.classification import classifier, model_folder
from embedx.errors import DataError, InapplicableError, Setting
from embedx.evaluation.word_sets import WordTests
from embedx.pages.document import render
from embedx.report import label_pair, labels, runs, words
from embedx.report.contract import PageRequest, TaskPages, name_of
from embedx.report.settings import LABEL_SETTINGS, WORD_SETTINGS, ReportSettings
from embedx.runtime.atomic import write_text
from embedx.runtime.progress import Progress, Silent
from embedx.storage.folder import no_model_folder, task_of_model
from embedx.storage.outputs import check_file
from embedx.storage.replacement import as_path
from embedx.vectors.model import load_folder
from embedx.vectors.model_folder import TASK as WORD_VECTORS

SUFFIX = ".report.html"

# By the task that a model folder names.
PAGES: Mapping[str, TaskPages[Any]] = {
    WORD_VECTORS: TaskPages(
        title="Word vectors",
        kind="word vectors",
        options=(*WORD_SETTINGS, "pairs", "analogies"),
        load=load_folder,
        template="words.html",
        single=words.values_for_model,
        pair=words.values_for_pair,
    ),
    model_folder.TASK: TaskPages(
        title="Classifier",
        kind="a classifier",
        options=(*LABEL_SETTINGS, "test", "test_labels"),
        load=classifier.load,
        template="labels.html",
        single=labels.values_for_model,
        pair=label_pair.values_for_pair,
    ),
}


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
    models = [model] if other is None else [model, other]
    request = PageRequest(
        models,
        ReportSettings(**options),
        WordTests(pairs or [], analogies),
        test,
        test_labels,
        progress or Silent(),
    )
    page = default_output(*map(as_path, models)) if output is None else as_path(output, "output")
    pages = pages_for(request, options)
    check_file(page, overwrite, request.inputs)
    write_text(page, html_of(request, pages))
    return page


def html_of(request: PageRequest, pages: TaskPages[Any]) -> str:
    """The page of one model or of two."""
    models = [pages.load(folder) for folder in request.folders]
    if len(models) == 1:
        return page_of_model(models[0], request, pages)
    return page_of_pair(models, request, pages)


def page_of_model(model: Any, request: PageRequest, pages: TaskPages[Any]) -> str:
    """The page of one model, as HTML."""
    title = f"{pages.title} {request.names[0]}"
    values = pages.single(model, request)
    return render(pages.template, title, **values, **runs.about_model(model, values))


def page_of_pair(models: Sequence[Any], request: PageRequest, pages: TaskPages[Any]) -> str:
    """The page of two models, as HTML."""
    names = request.names
    values = {**pages.pair(models, request), **runs.about_pair(models, names)}
    by_name = zip(names, request.models, strict=True)
    folders = {name: folder for name, folder in by_name if str(folder) != name}
    return render("pair.html", " and ".join(names), **values, models=folders)


def default_output(*models: str | Path) -> Path:
    """`corpus.ns.report.html` in the working folder for `…/corpus.ns.embedx`."""
    return Path("-".join(map(name_of, models)) + SUFFIX)


# ---- refusals


def pages_for(request: PageRequest, options: Mapping[str, Any]) -> TaskPages[Any]:
    """The pages of the models' task. Raises `EmbedxError` for what they cannot show.

    options  settings that were given
    """
    task = common_task(request)
    check_options(request, task, options)
    if request.test_labels is not None and request.test is None:
        raise InapplicableError("test_labels", None, ("needs ", Setting("test")))
    return PAGES[task]


def common_task(request: PageRequest) -> str:
    """The task of all the models; raises `EmbedxError` where there is none."""
    tasks = [*map(known_task, request.models, request.folders)]
    for model, task in zip(request.models, tasks, strict=True):
        if task != tasks[0]:
            kinds = f"{PAGES[task].kind}, but {request.models[0]} is {PAGES[tasks[0]].kind}"
            raise DataError(model, None, kinds, "compare models of one task")
    return tasks[0]


def known_task(model: str | Path, folder: Path) -> str:
    """The task of a model; raises `EmbedxError` for a folder without one."""
    task = task_of_model(folder)
    if task is None:
        raise no_model_folder(model)
    return task


def check_options(request: PageRequest, task: str, options: Mapping[str, Any]) -> None:
    """Raise `EmbedxError` for options, or test data, that are for models of another task."""
    given = {
        **options,
        "pairs": request.word_tests.pairs,
        "analogies": request.word_tests.analogies,
        "test": request.test,
        "test_labels": request.test_labels,
    }
    others = [pages for other_task, pages in PAGES.items() if other_task != task]
    for pages in others:
        for name in pages.options:
            if given.get(name) not in (None, []):
                remedy = f"{request.models[0]} is {PAGES[task].kind}"
                raise InapplicableError(name, None, f"is for {pages.kind}", remedy)
