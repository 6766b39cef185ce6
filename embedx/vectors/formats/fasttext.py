"""fastText's .bin models, with the vectors of n-grams: see `embedx.vectors.fasttext_bin` for the layout."""

from collections.abc import Iterator

from embedx.errors import EmbedxError
from embedx.training.progress import Progress
from embedx.vectors import fasttext_bin
from embedx.vectors.formats.contract import Format, Found, Opened, Table


class FastText(Format):
    name = "fasttext"
    meaning = "a whole skip-gram model of fastText, .bin: words, and the n-grams of those that were never seen"
    programs = "fastText, gensim's load_facebook_vectors"
    is_packed = True
    ends_words = True
    has_ngrams = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return head.startswith(fasttext_bin.SUFFIX)

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        found = fasttext_bin.read(file.path("a fastText model"), progress)
        return Found(found.words, found.vectors, found.counts, found.own, found.subwords)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        for word in table.words:
            if "\0" in word:
                raise EmbedxError(f"the word {word!r} holds a zero character, which ends words in a fastText .bin model")
        return fasttext_bin.pieces(
            table.words, table.rows, table.own, table.outputs, table.counts, table.subwords, table.settings, table.progress
        )
