"""Encodes sentences given as lists of words."""

import array
import reprlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from embedx.errors import DataError
from embedx.runtime.progress import SILENT, Progress
from embedx.storage.schema import as_utf8, is_utf8
from embedx.text.cache import folders
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.unicode_forms import normalized
from embedx.text.word_list import WordList, check_is_list

FLUSH_TOKENS = 1 << 16


def encode_sentences(
    sentences: Iterable[Iterable[str]],
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    form: str | None = None,
) -> EncodedCorpus:
    """Encode sentences, iterated over once, as a temporary corpus. Words may be any strings; half
    of a surrogate pair, which UTF-8 cannot represent, becomes U+FFFD.

    form  of Unicode to which words are converted: `nfc` or `nfkc`; None leaves them as they are
    """
    numbers = WordNumbers()
    pending = array.array("i")
    progress.start("reading", None, "sentences")
    with CorpusWriter(folders(cache_dir)[0]) as writer:
        for number, sentence in enumerate(sentences, 1):
            ids = _numbered(sentence, number, numbers, form)
            if ids:
                pending.extend([*ids, END_OF_SENTENCE])
            if len(pending) >= FLUSH_TOKENS:
                writer.write_tokens(np.array(pending))
                del pending[:]
                progress.update(number)
        writer.write_tokens(np.array(pending))
        progress.finish()
        _check_words(numbers)
        if numbers.n_replaced:
            words = "word" if numbers.n_replaced == 1 else "words"
            progress.note(
                f"{numbers.n_replaced:,} {words} with half of a surrogate pair, which no file can"
                " hold, replaced by U+FFFD"
            )
        writer.write_words(WordList.of(numbers.words))
        return writer.finish({"sources": []}, {})


def _numbered(
    sentence: Iterable[str], number: int, numbers: "WordNumbers", form: str | None
) -> list[int]:
    """The numbers of the words of a sentence. Raises `DataError` if it is not a list of words."""
    words = check_is_list(sentence, number, "sentences")
    if form is not None:
        words = [normalized(word, form) if isinstance(word, str) else word for word in words]
    try:
        return [numbers[word] for word in words]
    except TypeError as error:
        # a word is not hashable, such as a list
        problem = f"number {number:,} has words that are no strings ({error})"
        raise DataError("sentences", None, problem, "give lists of strings") from error


def _check_words(numbers: "WordNumbers") -> None:
    """Raise `DataError` if there are no words, or some are not strings."""
    if not numbers:
        raise DataError(
            "sentences", None, "no words", "give a list, or an iterator that was not used up before"
        )
    wrong = [word for word in numbers if not isinstance(word, str)]
    if wrong:
        problem = f"{reprlib.repr(wrong[0])} is a word, but no string"
        raise DataError("sentences", None, problem, "give strings: str(word) for each")


class WordNumbers(dict[str, int]):
    """Numbers words in the order in which they are first looked up.

    words in valid UTF-8, by number
    n_replaced  number of distinct words with a replaced character
    """

    def __init__(self) -> None:
        self.words: dict[str, None] = {}
        self.n_replaced = 0

    def __missing__(self, word: str) -> int:
        written = word
        if isinstance(word, str) and not is_utf8(word):
            written = as_utf8(word)
            self.n_replaced += 1
        number = len(self.words)
        if written in self.words:
            number = self[written]
        self.words[written] = None
        self[word] = number
        self[written] = number
        return number
