"""Settings of training on a Ray cluster."""

from typing import Any

from embedx.errors import Setting
from embedx.settings import Settings, check_used, param

MAX_WORKERS = 1024


class ClusterSettings(Settings):
    """The workers of a run."""

    panel = "Cluster"

    cluster: str | None = param(
        None,
        "train on the Ray cluster of this machine: `auto`, or HOST:PORT if there are several; needs"
        ' pip install "embedx[ray]"',
    )
    workers: int | None = param(
        None,
        "with --cluster: worker processes, each with --threads threads; by default one for each"
        " machine of the cluster",
        at_least=1,
        at_most=MAX_WORKERS,
    )
    merge_every: int | None = param(
        None,
        "with --cluster: words or examples a worker trains between two merges; by default chosen so"
        " that merging takes little of the time",
        at_least=1,
        has_option=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        cluster = Setting("cluster")
        # gensim's workers are threads.
        cluster_not_threads = (cluster, "; the number of threads is ", Setting("threads"))
        check_used(
            vars(self),
            [
                ("workers", self.is_asked_for, cluster_not_threads),
                ("merge_every", self.is_asked_for, cluster),
            ],
        )

    @property
    def is_asked_for(self) -> bool:
        """Whether a cluster is to train."""
        return self.cluster is not None

    def record(self) -> dict[str, Any]:
        """The values; none without a cluster."""
        return super().record() if self.is_asked_for else {}
