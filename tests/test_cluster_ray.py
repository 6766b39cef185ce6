"""--cluster on a real Ray cluster: word vectors, workers and machines that are lost, a head that is lost."""

import os
import signal
import subprocess
import sys
import time

import pytest
from ray_cluster import NODE, Watching, cluster_of, killed, stopped

from embedx.distributed import ray_backend, run, words
from embedx.distributed.settings import ClusterSettings
from embedx.errors import EmbedxError
from embedx.skipgram.configuration import configure
from embedx.vectors.model import load_folder

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("ray")]
EPOCHS = 15


@pytest.fixture(scope="module")
def cluster():
    with cluster_of(2) as found:
        yield found


def trained(corpus, cluster, progress, objective="ns", **options):
    config = configure(objective, {"epochs": EPOCHS, "dim": 16, "threads": 1, **options})
    on = ClusterSettings(cluster=cluster.address, workers=2, merge_every=10_000)
    return words.train([str(corpus)], config, on, progress=progress)


def is_on_topic(vectors):
    near = {word: [each for each, _ in vectors.most_similar(word, top_k=3)] for word in ("cat", "wheel")}
    cats, cars = {"dog", "purr", "fur", "paw", "tail"}, {"car", "truck", "engine", "road", "fuel"}
    return set(near["cat"]) <= cats and set(near["wheel"]) <= cars


def n_words(found):
    return found.outcome.tally.words


def test_two_workers_learn_what_one_machine_does(two_topics, cluster):
    watching = Watching()
    found = trained(two_topics, cluster, watching, heldout=0.05)
    assert is_on_topic(found.vectors)
    assert len(watching.workers()) == 2
    facts = found.vectors.facts
    assert facts["cluster"]["workers"] == 2
    assert facts["cluster"]["bytes_merged"] > 0
    assert facts["epochs"] == EPOCHS
    assert facts["heldout"]["log_likelihood"] > facts["heldout"]["unigram"]


def test_a_killed_worker_costs_its_range_alone(two_topics, cluster):
    watching = Watching(0.3, killed)
    found = trained(two_topics, cluster, watching)
    assert len(watching.says("is lost")) == 1
    assert is_on_topic(found.vectors)
    assert n_words(found) == pytest.approx(EPOCHS * sum(found.vectors.counts))


def test_a_worker_that_hangs_is_given_up(two_topics, cluster, monkeypatch):
    monkeypatch.setattr(run, "MIN_TIMEOUT", 2.0)
    watching = Watching(0.3, stopped)
    found = trained(two_topics, cluster, watching)
    os.kill(watching.workers()[0], signal.SIGCONT)
    assert watching.says("is lost")
    assert n_words(found) == pytest.approx(EPOCHS * sum(found.vectors.counts))


def test_machines_may_leave_and_join(two_topics, cluster):
    third = cluster.add_node(**NODE)

    def change(watching):
        cluster.remove_node(third, allow_graceful=False)
        cluster.add_node(**NODE)

    watching = Watching(0.2, change)
    config = configure("ns", {"epochs": 4 * EPOCHS, "dim": 16, "threads": 1})
    on = ClusterSettings(cluster=cluster.address, workers=3, merge_every=10_000)
    found = words.train([str(two_topics)], config, on, progress=watching)
    assert len(watching.workers()) >= 2
    assert n_words(found) == pytest.approx(4 * EPOCHS * sum(found.vectors.counts))


def test_a_lost_head_is_resumed_from_its_checkpoint(two_topics, cluster, tmp_path):
    output = tmp_path / "model"
    command = [
        sys.executable, "-m", "embedx", "train", str(two_topics), "--cluster", cluster.address, "--workers", "2",
        "--threads", "1", "--set", "merge-every=10000", "--epochs", "300", "--dim", "16",
        "--checkpoint-every", "1s", "--output", str(output),
    ]  # fmt: skip
    checkpoint = tmp_path / "model.checkpoint"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=tmp_path) as process:
        deadline = time.monotonic() + 120
        while not list(checkpoint.glob("state-*.npz")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    assert list(checkpoint.glob("state-*.npz"))
    resumed = [sys.executable, "-m", "embedx", "resume", str(output)]
    done = subprocess.run(resumed, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "resumed from" in done.stderr
    assert not checkpoint.exists()
    assert is_on_topic(load_folder(output))


# ---- what is refused, in one line


def test_what_workers_cannot_do_is_refused(two_topics, cluster):
    with pytest.raises(EmbedxError, match="--deterministic does not apply with --cluster"):
        trained(two_topics, cluster, Watching(), deterministic=True)
    with pytest.raises(EmbedxError, match="--threads 64: no machine of the cluster has so many CPUs"):
        trained(two_topics, cluster, Watching(), threads=64)


def test_no_cluster_is_reported_in_a_line(two_topics):
    with pytest.raises(EmbedxError, match=r"no Ray cluster at 127\.0\.0\.1:1;.*ray start --head"):
        words.train([str(two_topics)], configure("ns", {}), ClusterSettings(cluster="127.0.0.1:1"))


def test_ray_that_is_not_installed_is_reported_in_a_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EmbedxError, match=r"--cluster: Ray is not installed; pip install \"embedx\[ray\]\""):
        ray_backend.ray()
