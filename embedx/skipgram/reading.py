"""From corpora to the encoded corpus that word vectors are trained on."""

from contextlib import AbstractContextManager
from pathlib import Path

from embedx.runtime.progress import Progress
from embedx.skipgram.configuration import Configuration
from embedx.text.encode import Corpora, encode
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.phrase_list import Phrases
from embedx.text.settings import PhraseSettings


def read_corpora(
    corpora: Corpora, config: Configuration, progress: Progress, cache_dir: Path | None
) -> AbstractContextManager[EncodedCorpus]:
    """The corpora as token ids, with collocations joined: those found in them, or those of the
    model to start from; or walks over the graph that they are.
    """
    if config.graph is not None:
        from embedx.graphs.walks import walks_of  # imported here, because few runs have any

        return walks_of(
            corpora,
            config.graph,
            config.settings,
            progress,
            cache_dir,
            is_stored=config.collapsed is not None,
            edge_separator=config.text.edge_separator,
        )
    phrases: PhraseSettings | Phrases | None = config.phrases
    if config.start is not None and config.start.objective is not None:
        phrases = config.start.model.phrases
    return encode(
        corpora, config.text, progress, cache_dir, phrases, threads=config.settings.threads
    )
