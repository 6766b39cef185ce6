"""A small text, encoded into a cache, and what is there then."""

from embedx.runtime.progress import SILENT
from embedx.text.encode import encode_sources
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources

TEXT = "The cat sat.\nThe dog\n\n sat on the cat \u2028 mat\n"


def leftovers(cache_folder):
    """The names of what is in a cache folder."""
    return [file.name for file in cache_folder.iterdir()]


def read(file, cache_folder, progress=SILENT, **settings):
    """The tokens of a text, from the cache if they are there."""
    return encode_sources(
        find_sources([str(file)]), TextSettings(**settings), progress, cache_folder
    )


def as_reference(corpus):
    """Tokens, words and counts as `reference_text.encoded` gives them."""
    return corpus.tokens.tolist(), [*corpus.words], corpus.counts.tolist()
