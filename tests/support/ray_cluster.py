"""A Ray cluster of two machines, which are both this one, for tests that need real ones."""

import contextlib
import os
import re
import warnings

from tests.support.notes import Notes

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


@contextlib.contextmanager
def cluster_of(n_nodes=2):
    """A cluster of n machines with one CPU each; the first is the head."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Ray makes of its own dependencies is not ours
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
        try:
            for _ in range(n_nodes - 1):
                cluster.add_node(**NODE)
            yield cluster
        finally:
            cluster.shutdown()


class Watching(Notes):
    """Notes, and something is done once when so much of the training is over."""

    interval = 0.05

    def __init__(self, share=1.0, act=lambda watching: None):
        super().__init__()
        self.share = share
        self.act = act
        self.total = None

    def start(self, title, total, unit, done=0):
        super().start(title, total, unit, done)
        self.total = total if title == "training" else None

    def update(self, done, **facts):
        super().update(done, **facts)
        if self.total and done >= self.share * self.total:
            self.share = float("inf")
            self.act(self)

    def workers(self):
        """The process of each worker that has started, in the order in which they did."""
        started = re.compile(r"worker \d+ on .*\(process (\d+)\)")
        matches = map(started.match, self.notes)
        return [int(match[1]) for match in matches if match is not None]
