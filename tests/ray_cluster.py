"""A Ray cluster of this machine alone, for the tests of one session; to be imported where it is used."""

import warnings

import pytest


@pytest.fixture(scope="session")
def ray_cluster():
    """This process is connected to it, and it has two CPUs; it is its own, whatever else runs on the machine."""
    ray = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own
        ray.init(
            address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", namespace="embedx"
        )
    yield ray
    ray.shutdown()
