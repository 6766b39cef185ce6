"""From what the user names, or hands over as sentences, to provisional token ids."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from embedx.run.progress import Progress
from embedx.settings import TextSettings
from embedx.text import cache, sources

Corpora = str | Path | Sequence[str | Path] | Iterable[Sequence[str]]  # names of corpora, or sentences as lists of tokens


def encode(
    corpora: Corpora, text: TextSettings, progress: Progress, cache_dir: Path | None, threads: int | None = None
) -> cache.EncodedCorpus:
    """The corpora as provisional token ids; read now, by so many threads (one for each core), or found in the token cache."""
    if isinstance(corpora, str | Path):
        corpora = [corpora]
    if isinstance(corpora, Sequence) and (names := [str(name) for name in corpora if isinstance(name, str | Path)]):
        return cache.encode(sources.resolve(names), text, progress, cache_dir, threads)
    return cache.encode_sentences(cast(Iterable[Sequence[str]], corpora), progress, cache_dir)
