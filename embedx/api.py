"""The commands as functions: `embedx.train`, `classify`, `compare`, `evaluate` and
`write_report`; `curves` and `plot_curves` of training, and `word_map`.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedx.classification import classifier, label_report, model_folder
from embedx.classification.label_report import LabelReport, LabelTests, RowsInMemory
from embedx.classification.settings import ClassifySettings
from embedx.comparison import compare as comparison
from embedx.comparison.data import variants_of
from embedx.comparison.settings import CompareSettings
from embedx.errors import DataError, InapplicableError, Setting, SettingError, choice
from embedx.evaluation import words
from embedx.evaluation.learning_curves import (
    LOSS,
    best_point,
    curve_points,
    curves_frame,
    mean_over_epoch,
)
from embedx.evaluation.word_report import Report
from embedx.labeled.tables.settings import TableSettings
from embedx.labeled.words import TextFeatureSettings
from embedx.pages import figures
from embedx.parameters import check_names, fields_of, plain_settings, python_names
from embedx.report import report as pages
from embedx.report.settings import ReportSettings
from embedx.report.word_map import MIN_WORDS_ON_MAP, WordMap, map_of, rows_on_map
from embedx.runtime.progress import python_progress
from embedx.skipgram import estimator as skipgram
from embedx.skipgram.run import Callback
from embedx.storage.folder import task_of_model
from embedx.storage.replacement import as_path, check_output
from embedx.storage.rescue import save_or_rescue
from embedx.tasks.labels import LabelTask
from embedx.tasks.requests import ClassifyRequest
from embedx.tasks.run import train_task
from embedx.text.encode import Corpora
from embedx.training.checkpoint_folder import reserved
from embedx.vectors.model import WordVectors

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from embedx.classification.estimator import SoftmaxClassifier
    from embedx.classification.parameters import ClassifyParameters
    from embedx.skipgram.parameters import SkipGramParameters

    TrainedModel = WordVectors | classifier.Classifier | SoftmaxClassifier
    AnyModel = WordVectors | classifier.Classifier | SoftmaxClassifier | str | Path

CLASSIFY = fields_of(ClassifySettings, TextFeatureSettings, TableSettings, is_of_words=False)
COMPARE = {field.name: field for field in dataclasses.fields(CompareSettings)}
write_report = python_names()(pages.report)


@python_names()
def train(
    corpora: Corpora,
    objective: str | None = None,
    *,
    output: str | Path | None = None,
    overwrite: bool = False,
    cache_dir: str | Path | None = None,
    verbose: bool = False,
    callbacks: Iterable[Callback] = (),
    **settings: "Unpack[SkipGramParameters]",
) -> WordVectors:
    """Train word vectors, as `embedx train` does, with the settings that `SkipGram` takes.

    corpora    files, patterns, directories, URLs or names of corpora, one or a list, or token lists
    output     the model folder to write, if any
    overwrite  replace a model that exists there
    verbose    report progress on standard error
    callbacks  as of `SkipGram.fit`
    """
    estimator = skipgram.SkipGram(objective, cache_dir=cache_dir, verbose=verbose, **settings)
    with _reserved(output, overwrite):
        model = estimator.fit(corpora, callbacks=callbacks).model
        if output is not None:
            save_or_rescue(lambda place: model.save(place, overwrite), Path(output))
    return model


@python_names()
def classify(
    train: str | Path | Sequence[str | Path],
    train_labels: str | None = None,
    *,
    objective: str | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    verbose: bool = False,
    **settings: "Unpack[ClassifyParameters]",
) -> classifier.Classifier:
    """Train a classifier on labelled data in a file, as `embedx classify` does. For arrays see
    `SoftmaxClassifier`.

    train         any file that `embedx classify` reads, or several; `train_labels` are their
                  labels, if in another file
    objective     by default chosen from the data, as `embedx classify` does
    output        the model folder to write, if any, and `overwrite` as of `train`
    settings      those of `embedx classify` by name

    The classifier's `predict`, `predict_proba`, `top_k` and `predict_set` take raw rows (texts,
    records, a data frame with the columns of a table, or arrays) and answer as `embedx predict`
    does. With scikit-learn, `SoftmaxClassifier.load(output)` is the same model.
    """
    check_names("classify", settings, CLASSIFY)
    request = ClassifyRequest(
        train=_names_of("train", train, "SoftmaxClassifier().fit(X, y) takes the rows themselves"),
        train_labels=train_labels,
        objective=objective,
        options=plain_settings(settings, CLASSIFY),
    )
    with python_progress(verbose) as progress, _reserved(output, overwrite):
        trained = train_task(LabelTask(request, progress), progress)
        model = trained.model
        assert isinstance(model, classifier.Classifier)
        if output is not None:
            save_or_rescue(lambda place: model.save(place, overwrite), Path(output))
    trained.outcome.raise_reason()
    return model


def _names_of(argument: str, given: object, instead: str) -> list[str]:
    """The names of files or data sets that were given, one or several. Raises `DataError` for
    anything else, such as a data frame.

    instead  what to do with rows in memory
    """
    names = given if isinstance(given, list | tuple) else [given]
    if not all(isinstance(name, str | Path) for name in names):
        problem = f"a {type(given).__name__}, where names of files are expected"
        raise DataError(argument, None, problem, instead)
    return [str(name) for name in names]


@contextlib.contextmanager
def _reserved(output: str | Path | None, overwrite: bool) -> Iterator[None]:
    """Lock the output, if any, while it is computed.

    Raises `EmbedxError` if it cannot be written, or another run is writing it.
    """
    if output is None:
        yield
        return
    folder = as_path(output, "output")
    check_output(folder, overwrite)
    with reserved(folder):
        yield


@python_names()
def compare(
    data: str | Sequence[str],
    objectives: str | Sequence[str] | None = None,
    output: str | Path | None = None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    verbose: bool = False,
    **settings: Any,
) -> comparison.Comparison:
    """Train several objectives on the same data and rank them, as `embedx compare` does: `ranking`,
    and a page in the folder `output`.

    data        text, or labelled data with `test`, which are named as on the command line
    objectives  names, a list or separated by commas: `"ns,hs"`; None: the default ones of
                `embedx compare`
    output      by default named after the data, as by `embedx compare`
    settings    those of `embedx compare`, of each run, and files: test, train_labels, test_labels,
                pairs, analogies, next_item, cache_dir
    """
    files = {name: settings.pop(name, None) for name in comparison.FILES}
    fields = {**CLASSIFY, **skipgram.FIELDS, **COMPARE}
    check_names("compare", settings, fields)
    given = plain_settings(settings, fields)
    names = _names_of("data", data, "write the rows to a file")
    if isinstance(objectives, str):
        objectives = variants_of(objectives)
    if objectives is not None and not isinstance(objectives, list | tuple):
        raise SettingError("objectives", objectives, "no names", "give a list, or `ns,hs`")
    with python_progress(verbose) as progress:
        return comparison.compare_files(
            names,
            files,
            given,
            objectives,
            None if output is None else as_path(output, "output"),
            resume=resume,
            overwrite=overwrite,
            progress=progress,
        )


@python_names()
def evaluate(
    model: "AnyModel",
    X: Any = None,
    y: Any = None,
    *,
    test: str | Path | None = None,
    test_labels: str | None = None,
    label_column: str | None = None,
    predictions: str | Path | None = None,
    against: "AnyModel | list[AnyModel] | tuple[AnyModel, ...]" = (),
    verbose: bool = False,
    **tests: Any,
) -> Report | LabelReport:
    """The scores of a model, or of the model in a folder or file, as computed by `embedx eval`.
    `to_frame()` returns them as a `pandas.DataFrame`.

    against  another model, or a list, scored on the same items, with the differences

    Of word vectors a `Report` on the packaged test sets, which prints as a table and has `scores`,
    `as_dict()` and `tsv()`:

    pairs, analogies                  files of test sets instead of the packaged ones
    protocol, method, restrict_vocab  how analogies are answered
    vectors                           "input", "output" or "sum"
    oov, seed, trust_pickle           as the options of `embedx eval`

    Of a classifier a `LabelReport`, a dict of its metrics on the rows X with the labels y, or on
    the data in the file `test`:

    X             rows as `predict` takes them: texts, records, a data frame or an array
    y             the label of each row, as `predict` gives it, or its labels: a list for each row,
                  or an indicator matrix. None: the label column of X
    label_column  of a table, by default that of the training data
    predictions   a file with the labels that another program predicts for the same rows, scored in
                  addition to the model
    """
    models = [model, *(against if isinstance(against, list | tuple) else [against])]
    for_labels = {
        "X": X,
        "y": y,
        "test": test,
        "test_labels": test_labels,
        "label_column": label_column,
        "predictions": predictions,
    }
    if _has_words(model):
        _check_none(for_labels, "is for classifiers, and the model has word vectors")
        with python_progress(verbose) as progress:
            first, *others = (_vectors_of(side) for side in models)
            return words.evaluate_model(first, others, progress=progress, **tests)
    _check_none(tests, "is for word vectors, and the model is a classifier")
    classifiers = [_classifier_of(side) for side in models]
    table = TableSettings(label_column=label_column)
    suggested = None if predictions is None else str(predictions)
    rows: LabelTests | RowsInMemory
    if X is not None:
        _check_in_memory(X, test=test, test_labels=test_labels)
        rows = RowsInMemory(X, y, table, suggested)
    elif test is not None:
        rows = LabelTests(str(test), test_labels, table, suggested)
    else:
        remedy = ("give rows and their labels, X and y, or a file by ", Setting("test"))
        raise SettingError("test", None, "a classifier is scored on labelled data", remedy)
    with python_progress(verbose) as progress:
        return label_report.evaluate(classifiers, rows, progress)


def _check_in_memory(X: Any, **files: Any) -> None:
    """Raise `EmbedxError` if X is the name of a file, or files are given in addition to X."""
    if isinstance(X, str | Path):
        remedy = ("give the rows, or the name of a file by ", Setting("test"))
        raise DataError("X", None, "a single string, not rows", remedy)
    _check_none(files, "does not apply with X")


def _check_none(tests: Mapping[str, Any], problem: str) -> None:
    """Raise `InapplicableError` for a test that does not apply."""
    for setting, value in tests.items():
        if value is not None:
            raise InapplicableError(setting, None, problem)


def _has_words(model: "AnyModel") -> bool:
    """Whether a model has word vectors."""
    if isinstance(model, str | Path):
        return task_of_model(Path(model)) != model_folder.TASK
    return isinstance(model, WordVectors)


def _classifier_of(model: "AnyModel") -> classifier.Classifier | str:
    """The classifier to be scored, or its folder."""
    if isinstance(model, str | Path):
        return str(model)
    # The classifier within a SoftmaxClassifier, which exists only with scikit-learn.
    trained = getattr(model, "classifier_", model)
    if not isinstance(trained, classifier.Classifier):
        problem = "neither word vectors nor a trained classifier"
        remedy = "give one of them, or the name of its folder"
        raise DataError(type(model).__name__, None, problem, remedy)
    return trained


def _vectors_of(model: "AnyModel") -> WordVectors | str:
    """The word vectors to be scored, or their file or folder."""
    if isinstance(model, str | Path):
        return str(model)
    if not isinstance(model, WordVectors):
        problem = "not word vectors"
        remedy = "give word vectors, or their file or folder"
        raise DataError(type(model).__name__, None, problem, remedy)
    return model


def curves(model: "TrainedModel") -> Any:
    """The learning curves of a trained model as a `pandas.DataFrame`, a row for each point: curve,
    epoch, seconds, value. Empty for vectors of other programs.

    Curves are the loss, with `heldout` the log-likelihood of held-out text, and of a classifier the
    measures of its validation rows. Raises `EmbedxError` without pandas.
    """
    return curves_frame(_facts_of(model))


def plot_curves(model: "TrainedModel", curve: str = "loss", ax: "Axes | None" = None) -> "Axes":
    """Draw a learning curve of a trained model against epochs, and return its matplotlib Axes.

    The loss is smoothed: each point is the mean over the epoch before it. Of other curves the best
    epoch is marked. Raises `EmbedxError` without matplotlib.

    curve  a name among those of `curves`: "loss", "held-out log-likelihood", "validation p@1", ...
    ax     where to draw; by default new Axes
    """
    facts = _facts_of(model)
    points_of_curve = curve_points(facts)
    if curve not in points_of_curve:
        raise SettingError("curve", curve, choice(curve, points_of_curve))
    points = points_of_curve[curve]
    if not points:
        problem = f"no {curve} was recorded"
        remedy = "give a model that embedx trained"
        raise DataError(type(model).__name__, None, problem, remedy)
    if curve == LOSS:
        points = mean_over_epoch(points)
    name = str(facts.get("objective") or type(model).__name__)
    ax = figures.curves({name: [points]}, curve, ax)
    if curve != LOSS:
        figures.mark_best(ax, best_point(points))
    return ax


def _facts_of(model: "TrainedModel") -> Mapping[str, Any]:
    """The recorded facts of the run that trained a model."""
    trained = getattr(model, "classifier_", model)
    facts: Mapping[str, Any] | None = getattr(trained, "facts", None)
    if facts is None:
        raise DataError(type(model).__name__, None, "not a trained model", "give a fitted one")
    return facts


def word_map(
    model: WordVectors,
    words: int | Sequence[str] = 1000,
    *,
    projection: str | None = None,
    seed: int = 0,
) -> WordMap:
    """A map of the most frequent words, or of a list of words, as on the page of `embedx report`:
    `to_frame()` has coordinates and clusters, `plot()` draws it.

    words       their number, at least 3, or a list of words
    projection  "tsne", the default where scikit-learn is installed, or "pca"
    seed        of the projection and the clusters
    """
    if not isinstance(model, WordVectors):
        raise DataError(type(model).__name__, None, "not word vectors", "give word vectors")
    settings = ReportSettings(projection=projection, seed=seed)
    n_frequent = 0
    asked: Sequence[str] = ()
    if isinstance(words, int):
        n_frequent = words
    else:
        asked = words
    rows = rows_on_map(model, n_frequent, asked)
    if len(rows) < MIN_WORDS_ON_MAP:
        problem = f"a map needs at least {MIN_WORDS_ON_MAP} words"
        raise SettingError("words", words, problem, "give more, or a model with more words")
    return map_of(model, rows, settings.projection, settings.seed)
