"""A small text, encoded into a cache, and what is there then."""

from embedx.runtime.progress import SILENT
from embedx.text.encode import encode_sources
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources

TEXT = "The cat sat.\nThe dog\n\n sat on the cat \u2028 mat\n"


def small_corpus(folder):
    path = folder / "corpus.txt"
    path.write_text(TEXT)
    return path


def leftovers(home):
    return [file.name for file in home.iterdir()]


def read(corpus, home, progress=SILENT, **settings):
    return encode_sources(find_sources([str(corpus)]), TextSettings(**settings), progress, home)


def as_reference(corpus):
    return corpus.tokens.tolist(), [*corpus.words], corpus.counts.tolist()
