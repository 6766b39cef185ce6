"""--cluster on a real Ray cluster: word vectors, classifiers, prediction; workers, machines and heads that are lost."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from label_data import ova, settings, topics
from ray_cluster import NODE, Watching, cluster_of
from test_cluster_classify import Nodes, assert_same_bytes, quality, train

from embedx.classification import classifier
from embedx.distributed import predict, ray_backend, run, words
from embedx.distributed.settings import ClusterSettings
from embedx.errors import EmbedxError
from embedx.labeled.digits import digits
from embedx.skipgram.configuration import configure
from embedx.training.progress import Silent
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


def test_a_worker_that_is_killed_or_hangs_costs_its_range_alone(two_topics, cluster, monkeypatch):
    def lose(watching):
        for process, how in zip(watching.workers(), (signal.SIGKILL, signal.SIGSTOP), strict=True):
            os.kill(process, how)

    monkeypatch.setattr(run, "MIN_TIMEOUT", 2.0)
    watching = Watching(0.3, lose)
    found = trained(two_topics, cluster, watching)
    os.kill(watching.workers()[1], signal.SIGCONT)
    assert len(watching.says("is lost")) == 2
    assert is_on_topic(found.vectors)
    assert n_words(found) == pytest.approx(EPOCHS * sum(found.vectors.counts))


def test_machines_may_leave_and_join(two_topics, cluster):
    third = cluster.add_node(**NODE)

    def change(watching):
        cluster.remove_node(third, allow_graceful=False)
        cluster.add_node(**NODE)

    watching = Watching(0.2, change)
    config = configure("ns", {"epochs": 2 * EPOCHS, "dim": 16, "threads": 1})
    on = ClusterSettings(cluster=cluster.address, workers=3, merge_every=10_000)
    found = words.train([str(two_topics)], config, on, progress=watching)
    assert len(watching.workers()) >= 2
    assert n_words(found) == pytest.approx(2 * EPOCHS * sum(found.vectors.counts))


def test_a_lost_head_is_resumed_from_its_checkpoint(two_topics, cluster, tmp_path):
    output = tmp_path / "model"
    command = [
        sys.executable, "-m", "embedx", "train", str(two_topics), "--cluster", cluster.address, "--workers", "2",
        "--threads", "1", "--set", "merge-every=10000", "--epochs", "150", "--dim", "16",
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


# ---- classifiers


@contextlib.contextmanager
def on_cluster(cluster, progress, **options):
    on = ClusterSettings(cluster=cluster.address, workers=2, **options)
    with ray_backend.connected(on, 1, progress) as size:
        yield Nodes(on, size)


def test_labels_of_a_killed_worker_are_trained_by_others(cluster):
    data, options = topics(2000, n_labels=1000), {"weights": "tree", "leaf_size": 8, "epochs": 30}
    alone = train(data, ova("logistic"), settings("logistic", **options)).classifier
    watching = Watching(0.3, lambda watching: os.kill(watching.workers()[0], signal.SIGKILL))
    with on_cluster(cluster, watching) as nodes:
        together = train(data, ova("logistic"), settings("logistic", **options), progress=watching, cluster=nodes).classifier
    assert len(watching.says("is lost")) == 1
    assert_same_bytes(alone, together)


def test_examples_are_divided_over_workers(cluster):
    with on_cluster(cluster, Silent(), merge_every=200) as nodes:
        found, trained = quality("ns", *digits(1000, 300), nodes, epochs=8)
    assert found > 0.7
    assert trained.outcome.tally.words == 7_200  # eight epochs of the rows that are not held out for calibration


def test_workers_that_predict_may_be_lost(cluster, tmp_path, monkeypatch):
    died = tmp_path / "died"

    class Mortal(predict.Predictor):
        def predict(self, features):
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().predict(features)

    monkeypatch.setattr(predict, "MAX_ROWS", 50)
    monkeypatch.setattr(predict, "Predictor", Mortal)
    data, test = digits(600, 400)
    quality("softmax", data, test, epochs=3)[1].classifier.save(tmp_path / "model")
    found = classifier.load(tmp_path / "model")
    expected = list(found.top_k(test.features, 3, threads=1))
    on = ClusterSettings(cluster=cluster.address, workers=2)
    blocks = list(predict.predict(on, found, test.features, 3, 1, Silent()))
    assert len(blocks) == 8
    assert died.exists()
    for part in (0, 1):
        whole = [np.concatenate([block[part] for block in each]) for each in (blocks, expected)]
        np.testing.assert_allclose(*whole, rtol=2e-5)


def test_both_commands_take_a_cluster(cluster, tmp_path):
    data = topics()
    lines = [f"{len(data)} {data.n_features} {data.n_labels}"]
    for i in range(len(data)):
        row = data.features[i]
        values = " ".join(f"{column}:{value}" for column, value in zip(row.indices, row.data, strict=True))
        lines.append(",".join(map(str, data.labels.rows(np.array([i])).ids)) + " " + values)
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")

    def run(*arguments):
        command = [sys.executable, "-m", "embedx", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        return done

    on = ["--cluster", cluster.address, "--workers", "2", "--threads", "1"]
    how = ["classify", "data.txt", "--objective", "ova", "--loss", "squared-hinge", "--weights", "sparse"]
    printed = run(*how, *on, "--output", "together").stderr
    assert "cluster=" in printed
    assert "worker 2 on" in printed
    run(*how, "--output", "alone")
    assert_same_bytes(classifier.load(tmp_path / "alone"), classifier.load(tmp_path / "together"))
    best = [run("predict", "together", "data.txt", "--top-k", "3", *more).stdout for more in (on, [])]
    assert len(best[0].splitlines()) == 600
    assert [line.split("\t")[::2] for line in best[0].splitlines()] == [line.split("\t")[::2] for line in best[1].splitlines()]


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
