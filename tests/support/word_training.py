"""Word vectors trained by a configuration, as the command line and `SkipGram` train them."""

from embedx.runtime.progress import SILENT
from embedx.skipgram.collapsed import CollapsedRun
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from embedx.training import life


def train(
    corpora,
    config,
    *,
    progress=SILENT,
    cache_dir=None,
    snapshot=None,
    checkpoints=None,
    watch=None,
):
    """The trained vectors, and how their training went.

    snapshot  of the state of a run with the same configuration and corpora, to resume
    watch     as of `CollapsedRun`, whose configurations are those of --collapsed
    """
    with read_corpora(corpora, config, progress, cache_dir) as corpus:
        if config.collapsed is None:
            run = WordVectorsRun.resolved(corpus, config, progress)
        else:
            run = CollapsedRun.resolved(corpus, config, progress)
            run.cache_dir = cache_dir
            run.watch = watch
        run.snapshot = snapshot
        return life.train_model(run, checkpoints)
