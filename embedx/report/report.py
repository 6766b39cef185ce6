"""`embedx report`: the page about a model folder, or about two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedx.classification import classifier, model_folder
from embedx.errors import DataError, InapplicableError, Setting
from embedx.evaluation.word_sets import WordTests
from embedx.pages.document import render
from embedx.report import label_pair, labels, runs, words
from embedx.report.contract import PageRequest, TaskPages
from embedx.report.settings import LABEL_SETTINGS, WORD_SETTINGS, ReportSettings
from embedx.runtime.atomic import followed, write_text
from embedx.runtime.progress import Progress, Silent
from embedx.storage.folder import present, task_of
from embedx.storage.outputs import check_file
from embedx.vectors import model as vectors

SUFFIX = ".report.html"

# by the task that a model folder names
PAGES: Mapping[str, TaskPages[Any]] = {
    vectors.TASK: TaskPages(
        title="Word vectors",
        kind="word vectors",
        options=(*WORD_SETTINGS, "pairs", "analogies"),
        load=vectors.load_folder,
        template="words.html",
        single=words.single_values,
        pair=words.pair_values,
    ),
    model_folder.TASK: TaskPages(
        title="Classifier",
        kind="a classifier",
        options=(*LABEL_SETTINGS, "test", "test_labels"),
        load=classifier.load,
        template="labels.html",
        single=labels.single_values,
        pair=label_pair.pair_values,
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
    settings = ReportSettings(**options)
    names = [model] if other is None else [model, other]
    folders = [present(Path(name)) for name in names]
    page = Path(output or default_output(*names))

    task = common_task(names, folders)
    test_sets = {"pairs": pairs, "analogies": analogies, "test": test, "test_labels": test_labels}
    check_options(model, task, {**test_sets, **options})
    if test_labels is not None and test is None:
        raise InapplicableError("test_labels", None, ("needs ", Setting("test")))
    inputs = [*names, test, test_labels, *(pairs or []), analogies]
    check_file(page, overwrite, [name for name in inputs if name is not None])

    word_tests = WordTests(pairs or [], analogies)
    request = PageRequest(
        folders,
        settings,
        word_tests,
        test,
        test_labels,
        progress or Silent(),
        different_names(names),
    )
    write_text(page, page_of(names, PAGES[task], request))
    return page


def page_of(names: Sequence[str | Path], pages: TaskPages[Any], request: PageRequest) -> str:
    """The page of one model or of two, as HTML."""
    models = [pages.load(folder) for folder in request.folders]
    if len(models) == 1:
        values = pages.single(models[0], request)
        title = f"{pages.title} {name_of(names[0])}"
        return render(pages.template, title, **values, **runs.about_model(models[0], values))

    title = " and ".join(request.names)
    folders = dict(zip(request.names, names, strict=True))
    values = pages.pair(models, request)
    return render(
        "pair.html", title, **values, **runs.about_pair(models, request.names), models=folders
    )


def name_of(model: str | Path) -> str:
    """What a model is called on its page: the name of its folder without .embedx."""
    return followed(Path(model)).name.removesuffix(".embedx") or "model"


def different_names(models: Sequence[str | Path]) -> list[str]:
    """What a page calls its models: their names, as they were given where these are the same, and A
    and B where these are, too.
    """
    names = [*map(name_of, models)]
    if len(set(names)) < len(names):
        names = [*map(str, models)]
    if len(set(names)) < len(names):
        return list("AB"[: len(names)])
    return names


def default_output(*models: str | Path) -> Path:
    """`corpus.ns.report.html` in the working folder for `…/corpus.ns.embedx`."""
    return Path("-".join(map(name_of, models)) + SUFFIX)


# ---- refusals


def common_task(models: Sequence[str | Path], folders: Sequence[Path]) -> str:
    """The task of all the models; raises `EmbedxError` where there is none."""
    task, *others = known_tasks(models, folders)
    for name, other_task in zip(models[1:], others, strict=True):
        if other_task != task:
            raise DataError(
                name,
                None,
                f"{PAGES[other_task].kind}, but {models[0]} is {PAGES[task].kind}",
                "only models of one task can be compared",
            )
    return task


def known_tasks(models: Sequence[str | Path], folders: Sequence[Path]) -> list[str]:
    """The task of each model; raises `EmbedxError` for a folder without a model."""
    tasks = []
    for name, folder, task in zip(models, folders, map(task_of, folders), strict=True):
        if task is None:
            raise DataError(
                name,
                None,
                why_no_model(folder),
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
    """Raise `EmbedxError` if one of the options is for models of another task."""
    for other_task, pages in PAGES.items():
        if other_task == task:
            continue
        for name in pages.options:
            if options.get(name) not in (None, []):
                remedy = f"{model} is {PAGES[task].kind}"
                raise InapplicableError(name, None, f"is for {pages.kind}", remedy)
