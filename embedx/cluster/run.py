"""A run on a cluster: which one, how many workers, and how much each of them trains before it merges."""

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

from embedx.cluster.contract import Divided
from embedx.cluster.ray_nodes import Size, chosen_size, connected
from embedx.cluster.settings import ClusterSettings
from embedx.cluster.strategy import OnCluster
from embedx.cluster.worker import Build
from embedx.run.progress import Progress


class Cluster:
    """The workers that a run has."""

    def __init__(self, settings: ClusterSettings, size: Size, progress: Progress) -> None:
        self.settings, self.size, self.progress = settings, size, progress
        self.training: OnCluster | None = None

    def divided(self, inner: Divided, build: Build, per_range: int) -> OnCluster:
        """How workers that `build` what they train do what `inner` would do here, so many stretches at a time."""
        self.training = OnCluster(inner, build, self.size, per_range, self.progress)
        return self.training

    def close(self) -> None:
        """End the workers."""
        if self.training is not None:
            self.training.close()

    def identity(self) -> dict[str, Any]:
        """What of it decides where a run is."""
        assert self.training is not None
        return {"number of stretches that a worker trains before it merges": self.training.per_range}

    def facts(self) -> dict[str, Any]:
        """For the model's record."""
        assert self.training is not None
        return {
            "workers": self.size.workers,
            "threads_of_worker": self.size.threads,
            "stretches_of_range": self.training.per_range,
            "bytes_merged": self.training.bytes,
        }


Kind = TypeVar("Kind", bound=Cluster)


@contextlib.contextmanager
def cluster_of(settings: ClusterSettings, threads: int | None, progress: Progress, kind: type[Kind]) -> Iterator[Kind | None]:
    """The cluster that is asked for, if any is, as a `kind` of `Cluster`; `threads` are each worker's.

    Raises `EmbedxError` if it cannot be had.
    """
    if settings.cluster is None:
        yield None
        return
    with connected(settings.cluster, progress):
        found = kind(settings, chosen_size(settings.workers, threads), progress)
        try:
            yield found
        finally:
            found.close()
