"""classify and predict --cluster on a real Ray cluster: labels divided over workers, examples divided, workers lost."""

import contextlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from label_data import ova, settings, topics
from ray_cluster import Watching, cluster_of, killed
from test_cluster_classify import Nodes, assert_same_bytes, quality, train

from embedx.classification import classifier
from embedx.distributed import predict
from embedx.distributed.ray_backend import connected
from embedx.distributed.settings import ClusterSettings
from embedx.labeled.digits import digits
from embedx.training.progress import Silent

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def address():
    with cluster_of(2) as found:
        yield found.address


@contextlib.contextmanager
def on_cluster(address, progress, **options):
    settings = ClusterSettings(cluster=address, workers=2, **options)
    with connected(settings, 1, progress) as size:
        yield Nodes(settings, size)


def test_labels_of_a_killed_worker_are_trained_by_others(address):
    data, options = topics(3000, n_labels=1500), {"weights": "tree", "leaf_size": 8, "epochs": 40}
    alone = train(data, ova("logistic"), settings("logistic", **options)).classifier
    watching = Watching(0.3, killed)
    with on_cluster(address, watching) as nodes:
        together = train(data, ova("logistic"), settings("logistic", **options), progress=watching, cluster=nodes).classifier
    assert len(watching.says("is lost")) == 1
    assert_same_bytes(alone, together)


def test_examples_are_divided_over_workers(address):
    watching = Watching()
    with on_cluster(address, watching, merge_every=200) as nodes:
        found, trained = quality("ns", *digits(1500, 500), nodes, epochs=10)
    assert found > 0.8
    assert trained.outcome.tally.words == 13_500  # ten epochs of the rows that are not held out for calibration
    assert trained.classifier.facts["cluster"]["bytes_merged"] > 0


def test_workers_that_predict_may_be_lost(address, tmp_path, monkeypatch):
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
    on = ClusterSettings(cluster=address, workers=2)
    blocks = list(predict.predict(on, found, test.features, 3, 1, Silent()))
    assert len(blocks) == 8
    assert died.exists()
    for part in (0, 1):
        whole = [np.concatenate([block[part] for block in each]) for each in (blocks, expected)]
        np.testing.assert_allclose(*whole, rtol=2e-5)


def test_both_commands_take_a_cluster(address, tmp_path):
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

    on = ["--cluster", address, "--workers", "2", "--threads", "1"]
    how = ["classify", "data.txt", "--objective", "ova", "--loss", "squared-hinge", "--weights", "sparse"]
    printed = run(*how, *on, "--output", "together").stderr
    assert "cluster=" in printed
    assert "worker 2 on" in printed
    run(*how, "--output", "alone")
    assert_same_bytes(classifier.load(tmp_path / "alone"), classifier.load(tmp_path / "together"))
    best = [run("predict", "together", "data.txt", "--top-k", "3", *more).stdout for more in (on, [])]
    assert len(best[0].splitlines()) == 600
    assert [line.split("\t")[::2] for line in best[0].splitlines()] == [line.split("\t")[::2] for line in best[1].splitlines()]
