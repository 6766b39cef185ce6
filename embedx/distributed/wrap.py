"""Which plan makes workers train a strategy."""

from embedx.classification.labelwise import LabelwiseTraining
from embedx.classification.strategies import Classification
from embedx.distributed import labels, words
from embedx.distributed.ray_backend import Size
from embedx.distributed.run import Distributed
from embedx.distributed.settings import ClusterSettings
from embedx.skipgram.strategies import Streamed
from embedx.training.strategy import Strategy, Wrap


def by_workers(cluster: ClusterSettings, size: Size) -> Wrap:
    """What makes the workers of the cluster that this process is connected to train a strategy."""

    def distributed(strategy: Strategy) -> Distributed:
        if isinstance(strategy, Streamed):
            return words.distributed(strategy, cluster, size)
        assert isinstance(strategy, LabelwiseTraining | Classification)
        return labels.distributed(strategy, cluster, size)

    return distributed
