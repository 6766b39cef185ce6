"""The command lines of word2vec.c and of fastText's classifiers, translated for `embedx train` and
`embedx classify`.

    embedx word2vec -train text8 -output vectors.bin -size 200 -window 8 -negative 25 -cbow 0
    -binary 1 embedx supervised -input train.txt -output model -lr 1.0 -epoch 25 -wordNgrams 2
    -bucket 200000 -dim 50 -loss ova embedx test model.bin test.txt 5 embedx predict-prob model.bin
    test.txt 5

Defaults are theirs, but for the threads, one for each usable core, and the optimiser with its rate,
which are ours. Options that have no effect on the model there have none here.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedx.cli import training
from embedx.errors import InapplicableError, Setting, SettingError, Text, choice
from embedx.runtime.progress import Reporter
from embedx.settings import on_command_line
from embedx.tasks.requests import ClassifyRequest, TrainRequest

if TYPE_CHECKING:
    from embedx.classification.classifier import Classifier

CLUSTERING = "leave it out, and cluster the vectors of the output by scikit-learn's KMeans"
Flag = Annotated[int, typer.Option(min=0, max=1)]
LOSSES = {"softmax": "softmax", "ns": "ns", "hs": "hs", "ova": "ova", "one-vs-all": "ova"}
# What fastText's losses are, beside their names: the noise by the square root of the counts, the
# tree by Huffman.
OF_LOSS: dict[str, dict[str, Any]] = {
    "ns": {"sampler": "unigram", "sampler_exponent": 0.5},
    "hs": {"hierarchy": "huffman"},
}


def given_settings(**settings: Any) -> dict[str, Any]:
    """The settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


def word2vec(
    train: Annotated[str, typer.Option()],
    output: Annotated[Path, typer.Option()],
    size: int = 100,
    window: int = 5,
    sample: float = 1e-3,
    hs: Flag = 0,
    negative: int = 5,
    threads: int | None = None,
    iter: int = 5,
    min_count: int | None = None,
    alpha: float | None = None,
    binary: Flag = 0,
    cbow: Flag = 1,
    save_vocab: Path | None = None,
    read_vocab: str | None = None,
    debug: int = 2,
    classes: int = 0,
    overwrite: bool = False,
) -> None:
    """Train word vectors with the command line of word2vec.c.

    Options have one dash or two. The vectors are written as by word2vec.c, and the model to
    OUTPUT.embedx. Defaults are those of word2vec.c, except the threads, one for each usable core,
    and the optimiser, which is that of `embedx train`; with -alpha it is SGD.

    train   text
    output  file of the vectors
    classes  0: vectors are not clustered
    """
    if classes:
        raise SettingError("classes", classes, "vectors are not clustered", CLUSTERING)
    if bool(hs) == bool(negative):
        problem: Text = ("with ", Setting("negative", negative))
        raise InapplicableError("hs", hs, problem, "give one of them, and 0 for the other")
    if read_vocab and min_count is not None:
        problem = ("does not apply with ", Setting("read_vocab"), ", whose words are all taken")
        raise InapplicableError("min_count", None, problem, "leave it out")
    if read_vocab is None and min_count is None:
        min_count = 5
    typed = given_settings(
        dim=size,
        window=window,
        sample=sample,
        epochs=iter,
        architecture="cbow" if cbow else "skipgram",
        vocab=read_vocab,
        min_count=min_count,
        negatives=None if hs else negative,
        threads=threads,
        optimizer=None if alpha is None else "sgd",
        learning_rate=alpha,
    )
    from embedx.vectors import export
    from embedx.vectors.model import load_folder

    for path in filter(None, (output, save_vocab)):
        export.check_free(path, overwrite)
    folder = output.with_name(output.name + ".embedx")
    objective = "hs" if hs else "ns"
    training.train(
        TrainRequest(
            corpora=[train], objective=objective, output=folder, overwrite=overwrite, typed=typed
        )
    )
    progress, model = Reporter(sys.stderr, spelling=on_command_line), load_folder(folder)
    print(
        export.export(
            model, "word2vec-binary" if binary else "word2vec", output, overwrite, progress
        )
    )
    if save_vocab is not None:
        print(export.export_vocabulary(model, save_vocab, overwrite))


def supervised(
    input: Annotated[str, typer.Option()],
    output: Annotated[Path, typer.Option()],
    dim: int | None = None,
    epoch: int = 5,
    loss: str = "softmax",
    neg: int = 5,
    word_ngrams: int = 1,
    minn: int = 0,
    maxn: int = 0,
    bucket: int | None = None,
    min_count: int = 1,
    pretrained_vectors: str | None = None,
    label: str = "__label__",
    lr: float | None = None,
    thread: int | None = None,
    seed: int | None = None,
    ws: int | None = None,
    lr_update_rate: int | None = None,
    verbose: int | None = None,
    overwrite: bool = False,
) -> None:
    """Train a classifier, with the options of `fasttext supervised`.

    Options have one dash or two. OUTPUT is a folder, for `embedx predict` and `embedx eval`.
    Defaults are those of fastText, except the threads, one for each usable core, and the optimiser
    and its learning rate, which are those of `embedx classify`. Words are divided by spaces and
    keep their case, and all their n-grams are features. These are scaled to unit length, as
    fastText takes the mean of the words. No rows are held out to calibrate probabilities on.

    input    labelled text
    output   folder of the model
    lr       without effect: the optimiser is Adagrad, whose rate is chosen from the data
    verbose  without effect
    """
    if loss not in LOSSES:
        raise SettingError("loss", loss, choice(loss, LOSSES))
    objective = LOSSES[loss]
    negatives = neg if objective == "ns" else None
    n_grams = {} if word_ngrams < 2 and maxn < 1 else {"min_ngram_count": 1, "buckets": bucket or 0}
    typed = n_grams | given_settings(
        hidden=dim if dim or pretrained_vectors else 100,
        epochs=epoch,
        threads=thread,
        seed=seed,
        scaling="l2",
        negatives=negatives,
        word_ngrams=word_ngrams,
        char_ngrams=f"{max(minn, 1)}-{maxn}" if maxn > 0 else None,
        min_count=min_count,
        calibration=0.0,
        pretrained=pretrained_vectors,
        label_prefix=label,
        tokenizer="whitespace",
        lowercase=False,
    )
    training.classify(
        ClassifyRequest(
            train=input,
            objective=objective,
            output=output,
            overwrite=overwrite,
            typed=typed | OF_LOSS.get(objective, {}),
        )
    )


def folder_of(model: str) -> str:
    """The folder of a model; it may be called as fastText's file would be, `model.bin`
    for `model`.
    """
    stem = model.removesuffix(".bin")
    return stem if stem != model and not Path(model).exists() and Path(stem).is_dir() else model


Number = Annotated[int, typer.Argument(min=1)]
Least = Annotated[float, typer.Argument(min=0, max=1)]


def score(model: str, data: str, k: Number = 1, threshold: Least = 0.0) -> None:
    """Print precision and recall, as `fasttext test` does.

    N is the number of rows that have a label of the training data; others are ignored.

    model      folder of a classifier, MODEL or MODEL.bin
    data       labelled data
    k          number of labels predicted for a row
    threshold  only labels of at least this probability
    """
    from embedx.classification.classifier import load
    from embedx.labeled.read import read

    found = load(folder_of(model))
    n, precision, recall = found.precision_and_recall(read(data, like=found.known), k, threshold)
    print(f"N\t{n}\nP@{k}\t{precision:.3g}\nR@{k}\t{recall:.3g}")


def score_labels(model: str, data: str, k: Number = 1, threshold: Least = 0.0) -> None:
    """Print F1 of each label, as `fasttext test-label` does.

    Rows without a label of the training data are ignored, as by `embedx test`.

    model      folder of a classifier, MODEL or MODEL.bin
    data       labelled data
    k          number of labels predicted for a row
    threshold  only labels of at least this probability
    """
    from embedx.classification.classifier import load
    from embedx.labeled.read import read

    found = load(folder_of(model))
    prefix = _prefix(found)
    rows = read(data, like=found.known)
    for name, counts in zip(
        [found.name(label) for label in range(found.n_labels)],
        found.label_counts(rows, k, threshold).tolist(),
        strict=True,
    ):
        n_true, n_predicted, n_correct = counts
        measures = {
            "F1-Score": _share(2 * n_correct, n_true + n_predicted),
            "Precision": _share(n_correct, n_predicted),
            "Recall": _share(n_correct, n_true),
        }
        shown = "  ".join(f"{measure} : {value}" for measure, value in measures.items())
        print(f"{shown}   {prefix}{name}")
    score(model, data, k, threshold)


def _share(part: int, whole: int) -> str:
    """A measure as fastText prints it, dashes where there is none."""
    return f"{part / whole:.6f}" if whole else "--------"


def _prefix(found: "Classifier") -> str:
    """What stands before each label."""
    text = found.known.text
    return str(text.settings["label_prefix"]) if text else "__label__"


def predict_prob(model: str, data: str, k: Number = 1, threshold: Least = 0.0) -> None:
    """Print labels with probabilities, as `fasttext predict-prob` does.

    model      folder of a classifier, MODEL or MODEL.bin
    data       lines of text; - is standard input, whose lines are answered as they come
    k          number of labels for a row
    threshold  only labels of at least this probability
    """
    print_best(model, data, k, threshold, has_probabilities=True)


def print_best(model: str, data: str, k: int, threshold: float, has_probabilities: bool) -> None:
    """Print the best labels of each row as fastText does."""
    from embedx.classification.classifier import load
    from embedx.cli.labels import best_of_lines, takes_lines
    from embedx.labeled.read import read

    found = load(folder_of(model))
    prefix = _prefix(found)
    if takes_lines(found, data):
        best = best_of_lines(found, k)
    else:
        best = found.iter_top_k(read(data, like=found.known, keeps_empty=True).features, k)
    for ids, probabilities in best:
        for row, values in zip(ids.tolist(), probabilities.tolist(), strict=True):
            labels = [
                f"{prefix}{found.name(label)}" + (f" {p:.6g}" if has_probabilities else "")
                for label, p in zip(row, values, strict=True)
                if p >= threshold
            ]
            print(*labels)
        sys.stdout.flush()


def is_fasttext_file(model: str) -> bool:
    """Whether a model is called as fastText's file would be."""
    return folder_of(model) != model
