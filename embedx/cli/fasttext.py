"""fastText's commands about word vectors: training, and what its models answer on standard input.

    embedx skipgram -input text.txt -output model -dim 100 -minn 3 -maxn 6
    echo "night day" | embedx print-word-vectors model.bin
    embedx nn model.bin 5 < words.txt

Training is translated for `embedx train`. The other commands print what fastText's print, prompts
included, and answer each line as it comes.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from embedx.cli import training
from embedx.cli.peers import SETTINGS_OF_LOSS, objective_of_loss, without_none
from embedx.cli.streams import command_progress
from embedx.storage.outputs import check_not_read
from embedx.tasks.requests import TrainRequest

NumberOfWords = Annotated[int, typer.Argument(min=1)]


# ---- training


@dataclass(frozen=True, kw_only=True)
class VectorsRequest:
    """The options of `fasttext skipgram` and `fasttext cbow`.

    input        text
    sample       -t of fastText
    output       folder of the model
    word_ngrams  without effect, as in fastText
    label        without effect
    verbose      without effect
    save_output  without effect: the model has its output vectors
    """

    input: Annotated[str, typer.Option()]
    output: Annotated[Path, typer.Option()]
    dim: int = 100
    ws: int = 5
    epoch: int = 5
    min_count: int = 5
    neg: int = 5
    loss: str = "ns"
    bucket: int = 2_000_000
    minn: int = 3
    maxn: int = 6
    sample: float = 1e-4
    lr: float | None = None
    pretrained_vectors: str | None = None
    thread: int | None = None
    seed: int | None = None
    word_ngrams: int | None = None
    label: str | None = None
    lr_update_rate: int | None = None
    save_output: int | None = None
    verbose: int | None = None
    overwrite: bool = False

    def translated(self, architecture: str) -> TrainRequest:
        """The same for `embedx train`."""
        objective = objective_of_loss(self.loss)
        settings = without_none(
            architecture=architecture,
            dim=self.dim,
            window=self.ws,
            epochs=self.epoch,
            min_count=self.min_count,
            sample=self.sample,
            optimizer=None if self.lr is None else "sgd",
            learning_rate=self.lr,
            start=self.pretrained_vectors,
            threads=self.thread,
            seed=self.seed,
        )
        if objective == "ns":
            settings |= {"negatives": self.neg, **SETTINGS_OF_LOSS["ns"]}
        if self.maxn > 0 and self.bucket > 0:
            settings["subwords"] = f"{max(self.minn, 1)}-{self.maxn}"
            settings["buckets"] = self.bucket
        return TrainRequest(
            corpora=[self.input],
            objective=objective,
            output=self.output,
            overwrite=self.overwrite,
            options=settings,
        )


def skipgram(request: VectorsRequest) -> None:
    """Train word vectors with the options of `fasttext skipgram`.

    Options have one dash or two. OUTPUT is a folder, called OUTPUT.bin by the other commands, and
    OUTPUT.vec has the vectors. Defaults are those of fastText, except the threads, one for each
    usable core, and the optimiser, which is that of `embedx train`; with -lr it is SGD.
    """
    _train("skipgram", request)


def cbow(request: VectorsRequest) -> None:
    """Train word vectors with the options of `fasttext cbow`.

    As `embedx skipgram`, but the mean of the context words predicts the word.
    """
    _train("cbow", request)


def _train(architecture: str, request: VectorsRequest) -> None:
    """Train as fastText's options say, and write the vectors as text beside the model."""
    from embedx.vectors import export
    from embedx.vectors.model import load

    vectors_file = request.output.with_name(request.output.name + ".vec")
    check_not_read(vectors_file, [request.input])
    export.check_free(vectors_file, request.overwrite)
    training.train(request.translated(architecture))
    model = load(request.output)
    progress = command_progress()
    print(export.export(model, "word2vec", vectors_file, request.overwrite, progress))


# ---- questions


def print_word_vectors(model: str) -> None:
    """Print the vector of each word of standard input, as `fasttext print-word-vectors` does.

    A word without a vector has zeros.

    model  folder of a model, MODEL or MODEL.bin, or a file of vectors
    """
    from embedx.cli import fasttext_queries

    fasttext_queries.print_word_vectors(model)


def print_sentence_vectors(model: str) -> None:
    """Print the vector of each line of standard input, as `fasttext print-sentence-vectors` does.

    It is the mean of the unit vectors of the words; of a classifier, the values of the hidden
    layer.

    model  folder of a model, MODEL or MODEL.bin, or a file of vectors
    """
    from embedx.cli import fasttext_queries

    fasttext_queries.print_sentence_vectors(model)


def print_ngrams(model: str, word: str) -> None:
    """Print the character n-grams of a word and their vectors, as `fasttext print-ngrams` does.

    A word of the vocabulary itself is the first. N-grams of no word of the training text have
    zeros.

    model  folder of a model with n-grams, MODEL or MODEL.bin, or a file of fastText
    """
    from embedx.cli import fasttext_queries

    fasttext_queries.print_ngrams(model, word)


def analogies(model: str, k: NumberOfWords = 10) -> None:
    """Print the words nearest to A - B + C, as `fasttext analogies` does.

    Three words each are read from standard input.

    model  folder of a model, MODEL or MODEL.bin, or a file of vectors
    k      number of words
    """
    from embedx.cli import fasttext_queries

    fasttext_queries.answer_triplets(model, k)


def dump(model: str, option: str) -> None:
    """Print settings or words of a model, as `fasttext dump` does.

    model   folder of a model, MODEL or MODEL.bin
    option  args: the settings by fastText's names; dict: words and labels with their counts
    """
    from embedx.cli import fasttext_queries

    fasttext_queries.dump(model, option)
