"""From what the user names, or hands over as sentences, to provisional token ids."""

import glob
import os
import reprlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from embedx.errors import DataError
from embedx.runtime.progress import Progress
from embedx.text import cache, sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.phrase_list import Phrases
from embedx.text.phrases import with_phrases
from embedx.text.settings import PhraseSettings, TextSettings

# names of corpora, or sentences as lists of tokens
Corpora = str | Path | Sequence[str | Path] | Iterable[Sequence[str]]


def encode(
    corpora: Corpora,
    text: TextSettings,
    progress: Progress,
    cache_dir: Path | None,
    phrases: PhraseSettings | Phrases | None = None,
    *,
    threads: int | None = None,
) -> EncodedCorpus:
    """The corpora as provisional token ids, read now or found in the token cache.

    threads     that read; by default one for each core
    phrases     collocations to join: how they are found in these corpora, or those that were joined
                in others; none, if None
    """
    if isinstance(corpora, str | Path):
        corpora = [corpora]
    if isinstance(corpora, Sequence) and any(isinstance(name, str | Path) for name in corpora):
        names = _names_of(corpora)
        corpus = cache.encode(sources.resolve(names), text, progress, cache_dir, threads)
    else:
        sentences = cast(Iterable[Sequence[str]], corpora)
        corpus = cache.encode_sentences(sentences, progress, cache_dir, text.normalize)
    if not phrases or (isinstance(phrases, PhraseSettings) and phrases.phrases == 0):
        return corpus
    return with_phrases(corpus, phrases, progress, cache_dir)


def _names_of(corpora: Sequence[object]) -> list[str]:
    """The names of corpora. Raises `DataError` for sentences among them, as lists or strings."""
    for corpus in corpora:
        if not isinstance(corpus, str | Path):
            problem = f"{reprlib.repr(corpus)} among names of files"
            raise DataError("corpora", None, problem, "give either names or lists of words")
        name = str(corpus)
        is_name = os.path.exists(name) or sources.is_url(name) or glob.glob(name, recursive=True)
        if len(name.split()) > 1 and not is_name and not sources.OF_ARCHIVE.fullmatch(name):
            problem = f"{reprlib.repr(name)} is no file, and a sentence is a list of words"
            raise DataError("corpora", None, problem, "split sentences into words, or check names")
    return [str(name) for name in corpora]
