"""From what the user names, or hands over as sentences, to provisional token ids."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from embedx.text import cache, sources
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.phrase_list import Phrases
from embedx.text.phrases import with_phrases
from embedx.text.settings import PhraseSettings, TextSettings
from embedx.training.progress import Progress

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
    if isinstance(corpora, Sequence) and (
        names := [str(name) for name in corpora if isinstance(name, str | Path)]
    ):
        corpus = cache.encode(sources.resolve(names), text, progress, cache_dir, threads)
    else:
        corpus = cache.encode_sentences(cast(Iterable[Sequence[str]], corpora), progress, cache_dir)
    if not phrases or (isinstance(phrases, PhraseSettings) and phrases.phrases == 0):
        return corpus
    return with_phrases(corpus, phrases, progress, cache_dir)
