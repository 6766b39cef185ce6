"""The command lines of word2vec.c and of fastText's classifiers, translated for `embedx train` and
`embedx classify`.

    embedx word2vec -train text8 -output vectors.bin -size 200 -negative 25 -cbow 0 -binary 1
    embedx supervised -input train.txt -output model -epoch 25 -wordNgrams 2 -loss ova
    embedx test model.bin test.txt 5
    embedx predict-prob model.bin test.txt 5

Defaults are theirs, but for the threads, one for each usable core, and the optimiser with its rate,
which are ours. Options that have no effect on the model there have none here.
"""

import dataclasses
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedx.cli import training
from embedx.cli.request_options import OPTION_NAMES
from embedx.cli.requests import PredictRequest
from embedx.cli.streams import command_progress
from embedx.errors import EmbedxError, InapplicableError, Setting, SettingError, Text, choice
from embedx.tasks.requests import ClassifyRequest, TrainRequest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from embedx.classification.classifier import Classifier
    from embedx.evaluation.f1 import LabelCounts

ALL = -1  # labels, as a number of them
CLUSTERING = "leave it out, and cluster the vectors of the output by scikit-learn's KMeans"
Flag = Annotated[int, typer.Option(min=0, max=1)]
# What `fasttext predict` takes, among the fields of `PredictRequest`.
PREDICT_OPTIONS = (
    "model",
    "data",
    "k",
    "least",
    "top_k",
    "threshold",
    "output",
    "overwrite",
    "quiet",
    "verbose",
)
LOSSES = {"softmax": "softmax", "ns": "ns", "hs": "hs", "ova": "ova", "one-vs-all": "ova"}
# What fastText's losses are, beside their names: the noise by the square root of the counts, the
# tree by Huffman.
SETTINGS_OF_LOSS: dict[str, dict[str, Any]] = {
    "ns": {"sampler": "unigram", "sampler_exponent": 0.5},
    "hs": {"hierarchy": "huffman"},
}


def without_none(**settings: Any) -> dict[str, Any]:
    """The settings that have a value."""
    return {name: value for name, value in settings.items() if value is not None}


# ---- word2vec.c


@dataclass(frozen=True, kw_only=True)
class Word2vecRequest:
    """The options of word2vec.c.

    train    text
    output   file of the vectors
    classes  0: vectors are not clustered
    """

    train: Annotated[str, typer.Option()]
    output: Annotated[Path, typer.Option()]
    size: int = 100
    window: int = 5
    sample: float = 1e-3
    hs: Flag = 0
    negative: int = 5
    threads: int | None = None
    iter: int = 5
    min_count: int | None = None
    alpha: float | None = None
    binary: Flag = 0
    cbow: Flag = 1
    save_vocab: Path | None = None
    read_vocab: str | None = None
    debug: int = 2
    classes: int = 0
    overwrite: bool = False

    @property
    def model_folder(self) -> Path:
        """The model that `embedx train` writes beside the vectors."""
        return self.output.with_name(self.output.name + ".embedx")

    def check(self) -> None:
        """Raise `EmbedxError` for options that cannot be, or cannot be together."""
        if self.classes:
            raise SettingError("classes", self.classes, "vectors are not clustered", CLUSTERING)
        if bool(self.hs) == bool(self.negative):
            problem: Text = ("with ", Setting("negative", self.negative))
            remedy = "give one of them, and 0 for the other"
            raise InapplicableError("hs", self.hs, problem, remedy)
        if self.read_vocab and self.min_count is not None:
            problem = ("does not apply with ", Setting("read_vocab"), ", whose words are all taken")
            raise InapplicableError("min_count", None, problem, "leave it out")

    def translated(self) -> TrainRequest:
        """The same for `embedx train`."""
        min_count = self.min_count
        if self.read_vocab is None and min_count is None:
            min_count = 5
        settings = without_none(
            dim=self.size,
            window=self.window,
            sample=self.sample,
            epochs=self.iter,
            architecture="cbow" if self.cbow else "skipgram",
            vocab=self.read_vocab,
            min_count=min_count,
            negatives=None if self.hs else self.negative,
            threads=self.threads,
            optimizer=None if self.alpha is None else "sgd",
            learning_rate=self.alpha,
        )
        return TrainRequest(
            corpora=[self.train],
            objective="hs" if self.hs else "ns",
            output=self.model_folder,
            overwrite=self.overwrite,
            options=settings,
        )


def word2vec(request: Word2vecRequest) -> None:
    """Train word vectors with the command line of word2vec.c.

    Options have one dash or two. The vectors are written as by word2vec.c, and the model to
    OUTPUT.embedx. Defaults are those of word2vec.c, except the threads, one for each usable core,
    and the optimiser, which is that of `embedx train`; with -alpha it is SGD.
    """
    from embedx.vectors import export
    from embedx.vectors.model import load_folder

    request.check()
    for path in filter(None, (request.output, request.save_vocab)):
        export.check_free(path, request.overwrite)
    training.train(request.translated())

    model = load_folder(request.model_folder)
    file_format = "word2vec-binary" if request.binary else "word2vec"
    progress = command_progress()
    print(export.export(model, file_format, request.output, request.overwrite, progress))
    if request.save_vocab is not None:
        print(export.export_vocabulary(model, request.save_vocab, request.overwrite))


# ---- fastText's classifiers


@dataclass(frozen=True, kw_only=True)
class SupervisedRequest:
    """The options of `fasttext supervised`.

    input        labelled text
    output       folder of the model
    lr           without effect: the optimiser is Adagrad, whose rate is chosen from the data
    verbose      without effect
    sample       -t of fastText, without effect on classifiers there too
    save_output  without effect: the model has its output vectors
    """

    input: Annotated[str, typer.Option()]
    output: Annotated[Path, typer.Option()]
    dim: int | None = None
    epoch: int = 5
    loss: str = "softmax"
    neg: int = 5
    word_ngrams: int = 1
    minn: int = 0
    maxn: int = 0
    bucket: int | None = None
    min_count: int = 1
    pretrained_vectors: str | None = None
    min_count_label: int = 0
    label: str = "__label__"
    lr: float | None = None
    sample: float | None = None
    save_output: int | None = None
    thread: int | None = None
    seed: int | None = None
    ws: int | None = None
    lr_update_rate: int | None = None
    verbose: int | None = None
    overwrite: bool = False

    def translated(self) -> ClassifyRequest:
        """The same for `embedx classify`. Raises `SettingError` for what it does not have."""
        least = self.min_count_label
        if least > 1:
            raise SettingError("min_count_label", least, "every label is learned", "leave it out")
        objective = objective_of_loss(self.loss)
        hidden = self.dim
        if not hidden and not self.pretrained_vectors:
            hidden = 100
        settings = without_none(
            hidden=hidden,
            epochs=self.epoch,
            threads=self.thread,
            seed=self.seed,
            scaling="l2",
            negatives=self.neg if objective == "ns" else None,
            word_ngrams=self.word_ngrams,
            char_ngrams=f"{max(self.minn, 1)}-{self.maxn}" if self.maxn > 0 else None,
            min_count=self.min_count,
            calibration=0.0,
            pretrained=self.pretrained_vectors,
            label_prefix=self.label,
            tokenizer="whitespace",
            lowercase=False,
        )
        if self.word_ngrams > 1 or self.maxn > 0:
            settings |= {"min_ngram_count": 1, "buckets": self.bucket or 0}
        return ClassifyRequest(
            train=[self.input],
            objective=objective,
            output=self.output,
            overwrite=self.overwrite,
            options=settings | SETTINGS_OF_LOSS.get(objective, {}),
        )


def objective_of_loss(loss: str) -> str:
    """The objective of fastText's loss."""
    if loss not in LOSSES:
        raise SettingError("loss", loss, choice(loss, LOSSES))
    return LOSSES[loss]


def supervised(request: SupervisedRequest) -> None:
    """Train a classifier, with the options of `fasttext supervised`.

    Options have one dash or two. OUTPUT is a folder, for `embedx predict` and `embedx eval`.
    Defaults are those of fastText, except the threads, one for each usable core, and the optimiser
    and its learning rate, which are those of `embedx classify`. Words are divided by spaces and
    keep their case, and all their n-grams are features. These are scaled to unit length, as
    fastText takes the mean of the words. No rows are held out to calibrate probabilities on.
    """
    training.classify(request.translated())


def model_folder_of(model: str) -> str:
    """The folder of a model; it may be called as fastText's file would be, `model.bin`
    for `model`.
    """
    stem = model.removesuffix(".bin")
    if stem != model and not Path(model).exists() and Path(stem).is_dir():
        return stem
    return model


Number = Annotated[int, typer.Argument(min=ALL)]
Least = Annotated[float, typer.Argument(min=0, max=1)]


def score(model: str, data: str, k: Number = 1, threshold: Least = 0.0) -> None:
    """Print precision and recall, as `fasttext test` does.

    N is the number of rows that have a label of the training data; others are ignored.

    model      folder of a classifier, MODEL or MODEL.bin
    data       labelled data
    k          number of labels predicted for a row, -1: all
    threshold  only labels of at least this probability
    """
    from embedx.classification.classifier import load

    n_rows, counts = _counts(load(model_folder_of(model)), data, k, threshold)
    _print_precision_and_recall(n_rows, counts, k)


def score_labels(model: str, data: str, k: Number = 1, threshold: Least = 0.0) -> None:
    """Print F1 of each label, as `fasttext test-label` does.

    Rows without a label of the training data are ignored, as by `embedx test`.

    model      folder of a classifier, MODEL or MODEL.bin
    data       labelled data
    k          number of labels predicted for a row, -1: all
    threshold  only labels of at least this probability
    """
    from embedx.classification.classifier import load

    classifier = load(model_folder_of(model))
    prefix = _prefix(classifier)
    n_rows, counts = _counts(classifier, data, k, threshold)
    columns = (column.tolist() for column in counts)
    for label, (n_right, n_predicted, n_true) in enumerate(zip(*columns, strict=True)):
        measures = {
            "F1-Score": _share(2 * n_right, n_true + n_predicted),
            "Precision": _share(n_right, n_predicted),
            "Recall": _share(n_right, n_true),
        }
        shown = "  ".join(f"{measure} : {value}" for measure, value in measures.items())
        print(f"{shown}   {prefix}{classifier.name(label)}")
    _print_precision_and_recall(n_rows, counts, k)


def _counts(
    classifier: "Classifier", data: str, k: int, threshold: float
) -> tuple[int, "LabelCounts"]:
    """The number of rows in a file that have a known label, and the counts of each label."""
    from embedx.classification.label_metrics import counts_of_best
    from embedx.labeled.read import read

    rows = read(data, schema=classifier.schema)
    return counts_of_best(classifier, rows, _n_best(classifier, k), threshold)


def _print_precision_and_recall(n_rows: int, counts: "LabelCounts", k: int) -> None:
    """Print the number of rows, and precision and recall over all labels."""
    from embedx.evaluation.labels import ratio

    n_right = int(counts.right.sum())
    precision = ratio(n_right, int(counts.predicted.sum()))
    recall = ratio(n_right, int(counts.true.sum()))
    print(f"N\t{n_rows}\nP@{k}\t{precision:.3g}\nR@{k}\t{recall:.3g}")


def _n_best(classifier: "Classifier", k: int) -> int:
    """A number of labels as fastText takes it: -1 is all."""
    if k == 0:
        raise EmbedxError(f"K {k}: must be at least 1, or -1 for all labels")
    return classifier.n_labels if k == ALL else k


def _share(part: int, whole: int) -> str:
    """A measure as fastText prints it, dashes where there is none."""
    if not whole:
        return "--------"
    return f"{part / whole:.6f}"


def _prefix(classifier: "Classifier") -> str:
    """What stands before each label."""
    text = classifier.schema.text
    if text is None:
        return "__label__"
    return str(text.settings["label_prefix"])


def predict_prob(model: str, data: str, k: Number = 1, threshold: Least = 0.0) -> None:
    """Print labels with probabilities, as `fasttext predict-prob` does.

    model      folder of a classifier, MODEL or MODEL.bin
    data       lines of text; - is standard input, whose lines are answered as they come
    k          number of labels for a row, -1: all
    threshold  only labels of at least this probability
    """
    print_best(model, data, k, threshold, has_probabilities=True)


def predict(request: PredictRequest) -> None:
    """Print the best labels of each row as `fasttext predict` does. Raises `InapplicableError` for
    options that it does not have.
    """
    remedy = "leave it out, or name the model by its folder, and no K"
    check_has_only(request, PREDICT_OPTIONS, "fasttext predict", remedy)
    k = request.top_k or 1
    if request.k is not None:
        k = request.k
    threshold = request.threshold or request.least
    print_best(request.model, request.data, k, threshold, has_probabilities=False)


def check_has_only(
    request: "DataclassInstance", names: Collection[str], program: str, remedy: str
) -> None:
    """Raise `InapplicableError` for an option that is given and not among `names`, which are those
    of a command of fastText.
    """
    for field in dataclasses.fields(request):
        has_default = field.default is not dataclasses.MISSING
        is_given = has_default and getattr(request, field.name) != field.default
        if is_given and field.name not in names:
            name = OPTION_NAMES.get(field.name, field.name).removeprefix("--")
            problem = f"does not apply where answers are those of `{program}`"
            raise InapplicableError(name, None, problem, remedy)


def print_best(model: str, data: str, k: int, threshold: float, has_probabilities: bool) -> None:
    """Print the best labels of each row as fastText does."""
    from embedx.classification.classifier import load
    from embedx.cli.labels import best_of_arriving
    from embedx.labeled.read import read_arriving, read_to_predict
    from embedx.text.sources import STANDARD_INPUT

    classifier = load(model_folder_of(model))
    prefix = _prefix(classifier)
    n_best = _n_best(classifier, k)
    if data == STANDARD_INPUT:
        arriving = read_arriving(classifier.schema)
        best = (answered.best for answered in best_of_arriving(classifier, arriving, n_best))
    else:
        rows = read_to_predict(data, classifier.schema)
        best = (block for block in classifier.iter_top_k(rows.features, n_best))
    for ids, probabilities in best:
        for row, row_probabilities in zip(ids.tolist(), probabilities.tolist(), strict=True):
            words = []
            for label, probability in zip(row, row_probabilities, strict=True):
                if probability < threshold:
                    continue
                words.append(f"{prefix}{classifier.name(label)}")
                if has_probabilities:
                    words.append(f"{probability:.6g}")
            print(*words)
        sys.stdout.flush()


def is_named_as_fasttext(model: str) -> bool:
    """Whether a model is called as fastText's file would be."""
    return model_folder_of(model) != model
