"""From a model folder to its page: `embedx report`."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from embedx.classification import classifier as classification
from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves
from embedx.report import label_page, labels, word_page, words
from embedx.report.settings import OF_LABELS, OF_WORDS, ReportSettings
from embedx.settings import option_name
from embedx.storage import atomic
from embedx.storage.folder import present, task_of
from embedx.training.progress import Progress, Silent
from embedx.vectors import model as vectors

SUFFIX = ".report.html"


def report(
    model: str | Path,
    output: str | Path | None = None,
    *,
    test: str | None = None,
    test_labels: str | None = None,
    pairs: list[Path] | None = None,
    analogies: Path | None = None,
    log_json: Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Path:
    """One page about the model in a folder, of word vectors or a classifier; the file, which needs nothing else.

    output     the file; by default that of `default_output`, in the working folder
    test       classifiers: data to score, in any format that `embedx classify` reads, and `test_labels` beside them
    pairs      word vectors: files of word pairs, and `analogies` of questions, instead of the packaged sets
    log_json   what `--log-json` of the training wrote, for the curve of the loss
    options    settings of `ReportSettings` by name: `words="city,music"`, `projection="tsne"`, ...

    Raises `EmbedxError` for a folder that holds no model, for what does not apply to its task, and for a file that exists,
    unless it is to be overwritten, or cannot be written. It appears when it is complete.
    """
    known = {field.name for field in dataclasses.fields(ReportSettings)}
    if unknown := options.keys() - known:
        raise TypeError(f"report takes no {', '.join(sorted(unknown))}; its settings are {', '.join(sorted(known))}")
    settings, progress = ReportSettings.from_options(options), progress or Silent()
    folder, out = present(Path(model)), Path(output) if output is not None else default_output(model)
    task = task_of(folder)
    if task is None:
        what = "a file" if folder.is_file() else "not a model folder" if folder.exists() else "no such folder"
        raise EmbedxError(f"{model}: {what}; give a folder that `embedx train` or `embedx classify` wrote")
    of_words = {"pairs": pairs, "analogies": analogies} | {name: options.get(name) for name in OF_WORDS}
    of_labels = {"test": test, "test_labels": test_labels} | {name: options.get(name) for name in OF_LABELS}
    is_classifier = task == classification.TASK
    for name, value in (of_words if is_classifier else of_labels).items():
        if value is not None and value != []:
            kinds = ("word vectors", "a classifier")[:: 1 if is_classifier else -1]
            raise EmbedxError(f"{option_name(name)} is for {kinds[0]}; {model} is {kinds[1]}")
    if test_labels is not None and test is None:
        raise EmbedxError("--test-labels needs --test")
    check_place(out, overwrite)
    if is_classifier:
        classifier = classification.load(folder)
        logged = [] if log_json is None else learning_curves.logged_points(log_json, classifier.facts)
        answers = None if test is None else labels.find_out(classifier, test, test_labels, settings, progress)
        text = label_page.page(name_of(model), folder, classifier, answers, logged)
    else:
        loaded = vectors.load_folder(folder)
        logged = [] if log_json is None else learning_curves.logged_points(log_json, loaded.facts)
        findings = words.find_out(loaded, folder, settings, pairs or [], analogies, progress)
        text = word_page.page(name_of(model), folder, loaded, findings, logged)
    write(out, text)
    return out


def check_place(out: Path, overwrite: bool) -> None:
    """Raise `EmbedxError` if a page cannot be put there."""
    if out.is_dir():
        raise EmbedxError(f"{out}: is a folder; give the name of a file")
    if out.exists() and not out.is_file():
        raise EmbedxError(f"{out}: a pipe or a device, in whose place no file is put; give the name of a file")
    if out.exists() and not overwrite:
        raise EmbedxError(f"{out}: exists already; add --overwrite, or choose another --output")
    if not out.resolve().parent.is_dir():
        raise EmbedxError(f"{out}: its folder does not exist; make it, or choose another --output")
    try:
        with tempfile.TemporaryFile(dir=out.resolve().parent):
            pass
    except OSError as error:
        raise _unwritable(out, error) from error


def write(out: Path, text: str) -> None:
    """Put a file in its place at once. Raises `EmbedxError` if that cannot be done, with what was there as it was."""
    try:
        atomic.write_text(out.resolve(), text)  # where links lead to
    except OSError as error:
        raise _unwritable(out, error) from error


def _unwritable(out: Path, error: OSError) -> EmbedxError:
    return EmbedxError(f"{out}: cannot be written: {error.strerror or error}; choose another --output")


def name_of(model: str | Path) -> str:
    """What a model is called on its page: the name of its folder without .embedx."""
    return Path(model).resolve().name.removesuffix(".embedx") or "model"


def default_output(model: str | Path) -> Path:
    """`corpus.ns.report.html` in the working folder for `…/corpus.ns.embedx`."""
    return Path(name_of(model) + SUFFIX)
