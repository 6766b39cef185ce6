"""The vocabulary of a model: which of the counted tokens are kept, in which order, and with which
probability subsampling keeps each.
"""

import functools
from dataclasses import dataclass

import numpy as np
from numpy import float32, int32, ndarray

from embedx.errors import SettingError
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.file_kinds import TO_UTF8
from embedx.text.settings import VocabularySettings
from embedx.text.unicode_forms import normalized


@dataclass(frozen=True)
class Vocabulary:
    """Words by decreasing count, equal counts by first appearance.

    counts    int64 (n_words,): count of each word in the whole corpus
    held_out  int64 (n_words,): count in the held-out part; None: there is none
    """

    words: list[str]
    counts: ndarray
    held_out: ndarray | None = None

    def __len__(self) -> int:
        return len(self.words)

    @functools.cached_property
    def n_tokens(self) -> int:
        """The number of tokens of the corpus that are one of these words."""
        return int(self.counts.sum())

    @functools.cached_property
    def trained_counts(self) -> ndarray:
        """The count of each word in the training text, int64 (n_words,); see the function
        `trained_counts`.
        """
        return trained_counts(self.counts, self.held_out)


def trained_counts(counts: ndarray, held_out: ndarray | None) -> ndarray:
    """The count of each word of the vocabulary in the training text, int64 (n_words,).

    counts    in the whole corpus; `held_out` in what training leaves out of it, None where that is
              nothing
    A word that occurs only in held-out text gets the count 1: it is in the vocabulary, and no model
    may give it probability 0.
    """
    if held_out is None:
        return counts
    return np.maximum(counts - held_out, 1)


def keep_probability(counts: ndarray, sample: float) -> ndarray:
    """The probability with which subsampling keeps a token of each word, float32 (n_words,).

    counts  int64 (n_words,): how often each word occurs

    min(1, sqrt(t/f) + t/f) with t = `sample` and f = the word's share of the kept tokens, as in
    word2vec.c (Mikolov et al. 2013, eq. 5, has instead the probability 1 - sqrt(t/f) of
    discarding). 0 keeps all.
    """
    if sample == 0:
        return np.ones(len(counts), float32)
    ratio = sample * counts.sum() / counts
    return np.asarray(np.minimum(1.0, np.sqrt(ratio) + ratio), float32)


def kept_counts(counts: ndarray, sample: float) -> ndarray:
    """The expected count of each word after subsampling, int64 (n_words,), at least 1."""
    kept = np.rint(counts * keep_probability(counts, sample).astype(np.float64))
    return np.asarray(np.maximum(kept, 1), np.int64)


def select(
    corpus: EncodedCorpus, settings: VocabularySettings, form: str | None = None
) -> tuple[Vocabulary, ndarray]:
    """Select the words that the settings keep. Returns them, and the map from provisional ids to
    their ids, int32 (n_types,), -1 if left out.

    form  the Unicode form of the text, to which the words of a list are converted too
    """
    counts = corpus.counts
    kept = np.flatnonzero(is_wanted(corpus, settings, form))
    # Only the kept words are sorted, because most words are rare.
    kept = kept[np.argsort(-counts[kept], kind="stable")][: settings.max_vocab]
    if len(kept) == 0:
        raise _no_words(counts, settings)
    remap = np.full(len(counts), -1, int32)
    remap[kept] = np.arange(len(kept), dtype=int32)
    return Vocabulary(corpus.words.at(kept), counts[kept]), remap


def _no_words(counts: ndarray, settings: VocabularySettings) -> SettingError:
    """The error that a vocabulary would have no words."""
    if settings.vocab is not None:
        problem = "none of its words is in the text"
        remedy = "check that the text is tokenised in the same way"
        return SettingError("vocab", settings.vocab, problem, remedy)
    max_count = counts.max(initial=0)
    problem = f"no word occurs so often, the highest count is {max_count}"
    return SettingError("min_count", settings.min_count, problem, "lower it, or give more text")


def is_wanted(
    corpus: EncodedCorpus, settings: VocabularySettings, form: str | None = None
) -> ndarray:
    """bool (n_types,): the words of --vocab or, without it, those that are frequent enough."""
    if settings.vocab is None:
        return corpus.counts >= settings.min_count
    wanted = set(read_word_list(settings.vocab, form))
    return np.fromiter((word in wanted for word in corpus.words), np.bool_, len(corpus.words))


def read_word_list(path: str, form: str | None = None) -> list[str]:
    """The words of a list, the first of each line, in a Unicode form.

    Raises `EmbedxError` if it is not a list of words.
    """
    words = []
    problem = "no words in it"
    remedy = "give a file with one word per line"
    try:
        with open(path, encoding="utf-8-sig") as lines:
            words = [normalized(line, form).split(maxsplit=1)[0] for line in lines if line.strip()]
    except UnicodeDecodeError:
        problem = "not UTF-8"
        remedy = TO_UTF8
    except OSError as error:
        problem = str(error.strerror)
    if not words:
        raise SettingError("vocab", path, problem, remedy)
    return words
