"""The command lines of word2vec.c and of `fasttext supervised`, translated for `embedx train` and `embedx classify`.

    embedx word2vec -train text8 -output vectors.bin -size 200 -window 8 -negative 25 -cbow 0 -binary 1
    embedx supervised -input train.txt -output model -dim 10 -epoch 25

Options that were left out have the values that they have there (`WORD2VEC`, `SUPERVISED`), but for the number of threads, which
is that of the usable cores, and the optimiser with its rate, which are ours. What has no effect there has none here.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from embedx.errors import EmbedxError, choice, near


class Peer(NamedTuple):
    """An option of the other program: the type of its value, its default there, and our setting, if it is no more than that."""

    kind: type
    default: Any = None
    setting: str | None = None


WORD2VEC = {
    "-train": Peer(str),
    "-output": Peer(str),
    "-size": Peer(int, 100, "dim"),
    "-window": Peer(int, 5, "window"),
    "-sample": Peer(float, 1e-3, "sample"),
    "-hs": Peer(int, 0),
    "-negative": Peer(int, 5),
    "-threads": Peer(int, None, "threads"),
    "-iter": Peer(int, 5, "epochs"),
    "-min-count": Peer(int, 5),
    "-alpha": Peer(float),
    "-classes": Peer(int, 0),
    "-debug": Peer(int, 2),
    "-binary": Peer(int, 0),
    "-cbow": Peer(int, 1),
    "-save-vocab": Peer(str),
    "-read-vocab": Peer(str, None, "vocab"),
}

SUPERVISED = {
    "-input": Peer(str),
    "-output": Peer(str),
    "-dim": Peer(int, 100, "hidden"),
    "-epoch": Peer(int, 5, "epochs"),
    "-lr": Peer(float, 0.1),
    "-loss": Peer(str, "softmax"),
    "-neg": Peer(int, 5),
    "-thread": Peer(int, None, "threads"),
    "-seed": Peer(int, None, "seed"),
    "-wordNgrams": Peer(int, 1),
    "-minn": Peer(int, 0),
    "-maxn": Peer(int, 0),
    "-minCount": Peer(int, 1),
    "-minCountLabel": Peer(int, 0),
    "-label": Peer(str, "__label__"),
    "-pretrainedVectors": Peer(str, ""),
    # Without effect, or of no consequence for the model, in `fasttext supervised` as well.
    **dict.fromkeys(("-ws", "-bucket", "-lrUpdateRate", "-verbose"), Peer(int)),
    "-t": Peer(float),
}
LOSSES = {"softmax": "softmax", "ns": "ns", "hs": "hs", "ova": "ova", "one-vs-all": "ova"}
# What fastText's losses are, beside their names: the noise by the square root of the counts, the tree by Huffman.
OF_LOSS: dict[str, dict[str, Any]] = {
    "ns": {"sampler": "unigram", "sampler_exponent": 0.5},
    "hs": {"hierarchy": "huffman"},
}
# Options of fastText that ask for what there is not: what to do instead.
INSTEAD = {
    "-autotune-validation": "`embedx compare` tries output layers, `embedx classify --validation` keeps the best epoch",
    "-autotune-duration": "--time-budget of `embedx classify` trains for a time",
    "-autotune-modelsize": "there is nothing like it; leave it out",
    "-autotune-metric": "there is nothing like it; leave it out",
    "-autotune-predictions": "there is nothing like it; leave it out",
    "-saveOutput": "the model is a folder, with both tables; leave it out",
    "-inputModel": "a classifier is trained from the beginning; leave it out",
}


class Asked(NamedTuple):
    """The command line in our terms."""

    source: str
    objective: str
    typed: Mapping[str, Any]  # settings, by name
    output: Path  # of the other program
    overwrite: bool = False
    format: str = ""  # of word vectors
    save_vocab: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of the model, beside the vector file."""
        return self.output.with_name(self.output.name + ".embedx")


def word2vec(arguments: Sequence[str]) -> Asked:
    """What a command line of word2vec.c asks `embedx train` for. Raises `EmbedxError` for what it cannot give."""
    values, overwrite = _values(arguments, WORD2VEC, {}, "word2vec.c")
    source, output = _needed(values, "-train", "the text"), _needed(values, "-output", "the file of the vectors")
    cbow = _of(values, WORD2VEC, "-cbow")
    if cbow not in (0, 1):
        raise EmbedxError(f"-cbow {cbow}: must be 0 (skip-gram) or 1 (CBOW)")
    if values.get("-classes"):
        raise EmbedxError(
            "-classes: vectors are not clustered; leave it out, and cluster those of the output by scikit-learn's KMeans"
        )
    tree, negatives = (_of(values, WORD2VEC, name) for name in ("-hs", "-negative"))
    if tree and negatives:
        raise EmbedxError(
            f"-hs {tree} with -negative {negatives}: would train by both at once, which embedx does not; add -negative 0"
        )
    if not tree and not negatives:
        raise EmbedxError("-hs 0 with -negative 0: there is nothing left to train by; give one of them")
    typed = _settings(values, WORD2VEC) | {"architecture": "cbow" if cbow else "skipgram"}
    if not tree:
        typed["negatives"] = negatives
    if "-read-vocab" in values:
        if "-min-count" in values:
            raise EmbedxError("-min-count with -read-vocab: the words of the file are taken as they are; leave -min-count out")
    else:
        typed["min_count"] = _of(values, WORD2VEC, "-min-count")
    if "-alpha" in values:
        typed |= {"optimizer": "sgd", "learning_rate": values["-alpha"]}
    return Asked(
        source,
        "hs" if tree else "ns",
        typed,
        Path(output),
        overwrite,
        "word2vec-binary" if values.get("-binary") else "word2vec",
        Path(values["-save-vocab"]) if "-save-vocab" in values else None,
    )


def supervised(arguments: Sequence[str]) -> Asked:
    """What a command line of `fasttext supervised` asks `embedx classify` for. Raises `EmbedxError` for what it cannot give."""
    values, overwrite = _values(arguments, SUPERVISED, INSTEAD, "fasttext supervised")
    source, output = _needed(values, "-input", "the labelled text"), _needed(values, "-output", "the folder of the model")
    for names, why in (
        (("-wordNgrams", "-minn", "-maxn"), "classifiers have no n-grams here; leave it out, or join words in the text"),
        (("-minCountLabel",), "every label is learned; leave it out"),
        (("-label",), "labels begin with __label__; change those of the text"),
        (("-pretrainedVectors",), "the hidden layer is learned from the labels; leave it out"),
        (
            ("-lr",),
            "the rate of fastText's own descent; leave it out for the default, which is chosen from the data, or type "
            f"`embedx classify {shlex.quote(source)} --hidden {_of(values, SUPERVISED, '-dim')} --learning-rate X`",
        ),
    ):
        for name in names:
            least = (0, 1) if name in ("-wordNgrams", "-minCountLabel") else (SUPERVISED[name].default,)
            if name in values and values[name] not in least:
                raise EmbedxError(f"{name} {values[name]}: {why}")
    if values.get("-minCount", 1) > 1:
        raise EmbedxError(f"-minCount {values['-minCount']}: every word of the text is a feature; leave it out")
    loss = _of(values, SUPERVISED, "-loss")
    if loss not in LOSSES:
        raise EmbedxError(f"-loss {loss}: {choice(loss, LOSSES)}")
    objective = LOSSES[loss]
    typed = _settings(values, SUPERVISED) | {"scaling": "l2"} | OF_LOSS.get(objective, {})
    if objective == "ns":
        typed["negatives"] = _of(values, SUPERVISED, "-neg")
    return Asked(source, objective, typed, Path(output), overwrite)


def _values(
    arguments: Sequence[str], options: Mapping[str, Peer], instead: Mapping[str, str], program: str
) -> tuple[dict[str, Any], bool]:
    """The values of the options that were typed, and whether what is there is to be replaced."""
    values: dict[str, Any] = {}
    words = iter(arguments)
    overwrite = False
    for word in words:
        if word == "--overwrite":
            overwrite = True
            continue
        if word in instead:
            raise EmbedxError(f"{word}: {instead[word]}")
        if word not in options:
            known = [*options, "--overwrite"]
            raise EmbedxError(f"{word}: no option of {program} that embedx knows; {near(word, known, '--help shows them')}")
        value = next(words, None)
        if value is None:
            raise EmbedxError(f"{word}: its value is missing")
        if word in values:
            raise EmbedxError(f"{word}: given twice; leave out one")
        values[word] = _number(word, value, options[word].kind)
    return values, overwrite


def _number(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise EmbedxError(f"{name} {text}: must be {'a whole number' if kind is int else 'a number'}") from None


def _needed(values: Mapping[str, Any], name: str, what: str) -> str:
    if name not in values:
        raise EmbedxError(f"{name}: name {what}; --help shows the options")
    return str(values[name])


def _of(values: Mapping[str, Any], options: Mapping[str, Peer], name: str) -> Any:
    return values.get(name, options[name].default)


def _settings(values: Mapping[str, Any], options: Mapping[str, Peer]) -> dict[str, Any]:
    """The settings that are no more than another name, with the values that they have there if they were not typed."""
    found = {each.setting: _of(values, options, name) for name, each in options.items() if each.setting is not None}
    return {name: value for name, value in found.items() if value is not None}
