"""A command that is killed at any moment, and resumed, writes the bytes of one that was not."""

import json
import signal
import subprocess
import sys

import pytest

from tests.support import forked
from tests.support.checkpoints import (
    ENDED,
    arrays_of,
    end_at_a_checkpoint,
)
from tests.support.forked import embedx_run, environment
from tests.support.notes import lines_with

RUNS = {
    "train": "train CORPUS --dim 8 --epochs 40",
    "train-rows-found": "train CORPUS --objective ldgs --dim 8 --epochs 20",
    "train-collapsed": "train CORPUS --objective softmax --collapsed --dim 64 --epochs 100",
    "classify": "classify digits --epochs 30 --validation 0.2 --set patience=1000",
}
# What is made before these train, of the text or of another model, is made anew when they go on.
FILE_WRITTEN = {
    "train-subwords": "ngram.npy",
    "train-phrases": "phrases1.tsv",
    "train-start": "input.npy",
}
PREPARED = {
    "train-subwords": "train CORPUS --subwords 2-4 --set buckets=50 --dim 8 --epochs 20",
    "train-start": "train CORPUS --start train --dim 8 --epochs 30",
    "train-phrases": (
        "train CORPUS --phrases 2 --phrase-threshold 0.0001 --set phrase-min-count=250 --dim 8"
        " --epochs 30"
    ),
}


def command_of(run, corpus, output):
    words = [str(corpus) if word == "CORPUS" else word for word in (RUNS | PREPARED)[run].split()]
    return [*words, "--threads", "1", "--output", output]


@pytest.fixture(scope="module")
def uninterrupted(home, two_topics):
    """The models of runs that were left alone."""
    files = {}

    def model(run):
        if run not in files:
            embedx_run(home, *command_of(run, two_topics, run))
            assert not (home / f"{run}.checkpoint").exists()
            files[run] = arrays_of(home / run)
        return files[run]

    return model


def newest(folder):
    return max((int(file.stem[-8:]) for file in folder.glob("state-*.npz")), default=0)


@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_resumes_to_the_very_model(run, home, two_topics, uninterrupted):
    output = f"killed-{run}"
    command = command_of(run, two_topics, output)
    for attempt, moment in (
        (command, "after"),
        ([*command, "--resume"], "before"),
        ([*command, "--resume"], "after"),
    ):
        code, log = end_at_a_checkpoint(attempt, home, signal.SIGKILL, moment)
        assert code == -signal.SIGKILL, log
        assert not (home / output).exists()
    assert newest(home / f"{output}.checkpoint") == 2
    completed = embedx_run(home, "resume", output)
    assert "resumed from" in completed.stderr
    assert completed.stdout.startswith(str(home / output))
    assert arrays_of(home / output) == uninterrupted(run)
    assert not (home / f"{output}.checkpoint").exists()


@pytest.mark.parametrize("run", PREPARED)
def test_a_killed_run_resumes_with_the_arrays_fitted_before_training(
    run, home, two_topics, uninterrupted
):
    uninterrupted("train")  # the model that one of them starts from
    output = f"killed-{run}"
    code, log = end_at_a_checkpoint(command_of(run, two_topics, output), home, signal.SIGKILL)
    assert code == -signal.SIGKILL, log
    completed = embedx_run(home, "resume", output)
    assert "resumed from" in completed.stderr
    assert arrays_of(home / output) == uninterrupted(run)
    assert uninterrupted(run)[FILE_WRITTEN[run]]


STOPPED = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


if hasattr(signal, "SIGHUP"):
    STOPPED.append((signal.SIGHUP, 129))


@pytest.mark.parametrize(("sent", "code"), STOPPED)
def test_an_interrupted_run_leaves_a_model_and_its_state(
    sent, code, home, two_topics, uninterrupted
):
    output = f"stopped-{code}"
    command = command_of("train", two_topics, output)
    ended, log = end_at_a_checkpoint(command, home, sent)
    assert ended == code
    assert f"embedx resume {home / output}" in log
    assert json.loads((home / output / "model.json").read_text())["facts"]["interrupted"]
    again = embedx_run(home, *command, check=False)
    assert again.returncode == 2
    assert "--resume" in again.stderr.splitlines()[-1]
    embedx_run(home, *command, "--resume")
    assert arrays_of(home / output) == uninterrupted("train")
    assert not json.loads((home / output / "model.json").read_text())["facts"]["interrupted"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="the system has no such signal")
def test_a_signal_that_is_ignored_from_the_start_stays_ignored(home, two_topics, uninterrupted):
    """As `nohup` does with SIGHUP."""
    words = [str(int(signal.SIGHUP)), "after", *command_of("train", two_topics, "nohup")]
    code = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{ENDED}"
    embedx = forked.run(
        *words, "--checkpoint-every", "0.01s", cwd=home, env=environment(home), code=code
    )
    assert embedx.returncode == 0
    assert arrays_of(home / "nohup") == uninterrupted("train")


def test_a_corpus_that_changed_is_refused(home, two_topics, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(two_topics.read_text())
    command = command_of("train", corpus, "changed")
    end_at_a_checkpoint(command, home, signal.SIGKILL)
    corpus.write_text(two_topics.read_text() + "and one more line\n")
    completed = embedx_run(home, "resume", "changed", check=False)
    assert completed.returncode == 2
    assert "corpus changed since" in completed.stderr.splitlines()[-1]
    assert newest(home / "changed.checkpoint") > 0


FULL = """
import resource, sys
from embedx.cli.app import main
from embedx.training import checkpoint

write = checkpoint.Checkpoints._write

def write_once(*arguments):
    write(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as on a file system that is full now

checkpoint.Checkpoints._write = write_once
sys.argv = ["embedx", *sys.argv[1:]]
main()
"""


def test_on_a_file_system_that_fills_up_the_last_checkpoint_is_left(
    home, two_topics, uninterrupted, tmp_path
):
    pytest.importorskip("resource")
    words = [*command_of("train", two_topics, "full"), "--checkpoint-every", "0.01s"]
    setting = environment(home) | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(forked.ROOT)}
    completed = subprocess.run(  # whose streams are no files
        [sys.executable, "-c", FULL, *words],
        cwd=home,
        env=setting,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert lines_with(completed.stderr, "warning: ", "full.checkpoint", "File too large")
    last = completed.stderr.splitlines()[-1]
    assert last.startswith(f"embedx: {home / 'full'}: ")
    assert "File too large" in last
    assert f"{tmp_path} (File too large), " in last
    assert "`embedx resume full`" in last
    assert sorted(file.name for file in home.glob("full*")) == ["full.checkpoint"]
    assert sorted(file.name for file in (home / "full.checkpoint").iterdir()) == [
        "run.json",
        "state-00000001.npz",
    ]
    assert not list(tmp_path.iterdir())
    embedx_run(home, "resume", "full")
    assert arrays_of(home / "full") == uninterrupted("train")
