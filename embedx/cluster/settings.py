"""Where a run trains: on this machine, or by workers on a Ray cluster."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from embedx.settings import Settings, check_used, param

MOST_WORKERS = 1024


@dataclasses.dataclass(frozen=True)
class ClusterSettings(Settings):
    """The workers of a run."""

    panel = "Cluster"

    cluster: str | None = param(
        None,
        "train on the Ray cluster that this machine belongs to: `auto`, or HOST:PORT where it belongs to several; needs "
        'pip install "embedx[ray]"',
    )
    workers: int | None = param(
        None,
        "with --cluster: worker processes, each with --threads threads; by default one for each machine of the cluster",
        at_least=1,
        at_most=MOST_WORKERS,
    )
    merge_every: int | None = param(
        None,
        "with --cluster: words, or examples, that a worker trains before it merges what it learned with what the others have; "
        "by default so many that the time of merging is small",
        at_least=1,
    )

    @property
    def is_asked_for(self) -> bool:
        """Whether a cluster is to train."""
        return self.cluster is not None

    def record(self) -> dict[str, Any]:
        """The values; none without a cluster."""
        return super().record() if self.is_asked_for else {}


def check_cluster_settings(options: Mapping[str, Any]) -> None:
    """Raise `EmbedxError` for settings of a cluster without one."""
    is_asked_for = options.get("cluster") is not None
    check_used(options, ((name, is_asked_for, "--cluster") for name in ("workers", "merge_every")))
