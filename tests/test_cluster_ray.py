"""--cluster on a real Ray cluster: word vectors, classifiers, prediction; workers, machines and
heads that are lost.
"""

import contextlib
import os
import signal
import sys
import types

import numpy as np
import pytest

from embedx.classification import classifier
from embedx.distributed import connection, predict, ray_backend, strategy as distributed_strategy
from embedx.distributed.parameters import ParameterReplica, Parameters
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.strategy import by_workers
from embedx.errors import InapplicableError, SettingError
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table
from embedx.runtime.progress import Silent
from embedx.tasks.requests import TrainRequest
from embedx.tasks.run import train_task
from embedx.tasks.words import WordTask
from embedx.vectors.model import load_folder
from tests.support.checkpoints import end_at_a_checkpoint
from tests.support.cluster_runs import Nodes, assert_same_bytes, quality, train
from tests.support.commands import invoke, words_of
from tests.support.label_data import ova, settings, topics, write_xc
from tests.support.notes import lines_with
from tests.support.ray_cluster import NODE, Watching, cluster_of
from tests.support.refusals import refused
from tests.support.topic_vectors import assert_knows_the_topics

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.xdist_group("ray")]
EPOCHS = 15


@pytest.fixture(scope="module")
def cluster():
    """Two machines that this process is connected to. What each worker would compile at its start
    is compiled before, once.
    """
    rule = update_rule("adagrad")
    table = new_table(1, 16, rule)
    ParameterReplica(
        Parameters({"": table}, rule, np.zeros((1, 0)), np.zeros(1), {"": np.zeros(1, np.float32)})
    )
    with cluster_of(2) as ray_cluster, pytest.MonkeyPatch.context() as patch:
        # on a busy machine one may start much later than the other
        patch.setattr(ray_backend, "SECONDS_FOR_OTHER_WORKERS", 120.0)
        with connection.connected(ClusterSettings(cluster=ray_cluster.address), 1, Silent()):
            yield ray_cluster


def trained(corpus, cluster, progress, workers=2, objective="ns", **options):
    options = {"epochs": EPOCHS, "dim": 16, "threads": 1, **options}
    options |= {"cluster": cluster.address, "workers": workers, "merge_every": 10_000}
    request = TrainRequest(corpora=[str(corpus)], objective=objective, options=options)
    task = WordTask(request, progress)
    with connection.connected(task.cluster, options["threads"], progress) as size:
        return train_task(task, progress, wrap=by_workers(task.cluster, size))


def n_words(trained):
    return trained.outcome.tally.items


def on_two_workers(cluster):
    """Options of a command."""
    return ["--cluster", cluster.address, "--workers", "2", "--threads", "1"]


def test_two_workers_learn_as_one_machine_and_a_lost_worker_costs_only_its_range(
    two_topics, cluster, monkeypatch
):
    def lose(watching):
        for process, signal_number in zip(
            watching.workers(), (signal.SIGKILL, signal.SIGSTOP), strict=True
        ):
            os.kill(process, signal_number)

    monkeypatch.setattr(distributed_strategy, "MIN_SECONDS_TO_WAIT", 2.0)
    watching = Watching(0.3, lose)
    fitted = trained(two_topics, cluster, watching, heldout=0.05)
    with contextlib.suppress(ProcessLookupError):  # Ray may have ended it
        os.kill(watching.workers()[1], signal.SIGCONT)
    assert len(lines_with(watching.notes, "is lost")) == 2
    assert_knows_the_topics(fitted.model)
    facts = fitted.model.facts
    assert facts["cluster"]["workers"] == 2
    assert facts["cluster"]["bytes_merged"] > 0
    assert facts["epochs"] == EPOCHS
    assert facts["heldout"]["log_likelihood"] > facts["heldout"]["unigram"]
    assert n_words(fitted) == pytest.approx(
        EPOCHS * sum(fitted.model.counts - fitted.model.arrays["heldout_counts"])
    )


def test_a_lost_head_is_resumed_from_its_checkpoint(two_topics, cluster, workdir, capsys):
    options = words_of(f"--dim 16 --epochs {EPOCHS} --set merge-every=10000 --output model")
    command = ["train", str(two_topics), *on_two_workers(cluster), *options]
    code, output = end_at_a_checkpoint(command, workdir, signal.SIGKILL)
    assert code == -signal.SIGKILL, output
    assert "cluster: connecting to" in output
    invoke("resume", "model")
    assert "resumed from" in capsys.readouterr().err
    assert not (workdir / "model.checkpoint").exists()
    assert_knows_the_topics(load_folder(workdir / "model"))


# ---- classifiers


@contextlib.contextmanager
def on_cluster(cluster, progress, **options):
    on = ClusterSettings(cluster=cluster.address, workers=2, **options)
    with connection.connected(on, 1, progress) as size:
        yield Nodes(on, size)


def test_labels_of_a_killed_worker_are_trained_by_others(cluster):
    data = topics(2000, n_labels=1000)
    options = {"weights": "tree", "leaf_size": 8, "epochs": 30}
    local = train(data, ova("logistic"), settings("logistic", **options)).classifier
    watching = Watching(0.3, lambda watching: os.kill(watching.workers()[0], signal.SIGKILL))
    with on_cluster(cluster, watching) as nodes:
        together = train(
            data, ova("logistic"), settings("logistic", **options), progress=watching, cluster=nodes
        ).classifier
    assert len(lines_with(watching.notes, "is lost")) == 1
    assert_same_bytes(local, together)


def test_workers_that_predict_may_be_lost(cluster, tmp_path, monkeypatch):
    died = tmp_path / "died"

    class Mortal(predict.Predictor):
        def predict(self, features):
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().predict(features)

    monkeypatch.setattr(predict, "MAX_ROWS_OF_BLOCK", 50)
    monkeypatch.setattr(predict, "Predictor", Mortal)
    data, test = digits(600, 400)
    quality("softmax", data, test, epochs=3)[1].classifier.save(tmp_path / "model")
    loaded = classifier.load(tmp_path / "model")
    expected = list(loaded.iter_top_k(test.features, 3, threads=1))
    on = ClusterSettings(cluster=cluster.address, workers=2)
    blocks = list(predict.predict(on, loaded, test.features, 3, 1, Silent()))
    assert len(blocks) == 8
    assert died.exists()
    for part in (0, 1):
        local_scores = [
            np.concatenate([block[part] for block in answers]) for answers in (blocks, expected)
        ]
        np.testing.assert_allclose(*local_scores, rtol=2e-5)


def test_both_commands_take_a_cluster(cluster, workdir, capsys):
    """Examples are divided over workers that train, and rows over those that predict."""
    data = topics(3000, n_labels=20)
    write_xc(
        workdir / "data.txt",
        data.features,
        [data.labels[i] for i in range(len(data))],
        data.n_labels,
    )
    options = words_of("--objective ns --epochs 8 --set merge-every=500 --calibration 0")
    invoke("classify", "data.txt", *options, *on_two_workers(cluster), "--output", "model")
    log = capsys.readouterr().err
    assert "cluster=" in log
    assert "worker 2 on" in log
    loaded = classifier.load(workdir / "model")
    assert loaded.facts["epochs"] == 8
    assert loaded.evaluate(data)["p@1"] > 0.7
    best = []
    for more in (on_two_workers(cluster), []):
        invoke("predict", "model", "data.txt", "--top-k", "3", *more)
        best.append([line.split("\t")[::2] for line in capsys.readouterr().out.splitlines()])
    assert len(best[0]) == 3000
    assert best[0] == best[1]


# ---- what is refused, in one line


def test_settings_that_workers_do_not_support_are_refused(two_topics, cluster):
    with refused("deterministic", "cluster", kind=InapplicableError):
        trained(two_topics, cluster, Watching(), deterministic=True)
    with refused("threads", value=64):
        trained(two_topics, cluster, Watching(), threads=64)


def test_a_machine_without_the_package_of_an_objective_is_named(two_topics, cluster, monkeypatch):
    """A module that only the process of the command has."""
    module = types.ModuleType("far_away")
    module.Far = type("Far", (OBJECTIVES["ns"],), {"name": "far", "__module__": "far_away"})
    monkeypatch.setitem(sys.modules, "far_away", module)
    monkeypatch.setitem(OBJECTIVES, "far", module.Far)
    watching = Watching()
    with refused("cluster", kind=SettingError) as raised:
        trained(two_topics, cluster, watching, objective="far")
    assert "lacks the module far_away (ModuleNotFoundError: " in raised.value.problem
    assert lines_with(watching.notes, "is lost") == []


def test_machines_may_leave_and_join(two_topics, cluster):
    """The last test of this cluster, which takes a while to notice that a machine is gone and sends
    it workers until then.
    """
    third = cluster.add_node(**NODE)

    def change(watching):
        cluster.remove_node(third, allow_graceful=False)
        cluster.add_node(**NODE)

    watching = Watching(0.2, change)
    fitted = trained(two_topics, cluster, watching, workers=3)
    assert len(watching.workers()) >= 3
    assert n_words(fitted) == pytest.approx(EPOCHS * sum(fitted.model.counts))
