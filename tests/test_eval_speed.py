"""eval speed: the corpus reaches every tool whole, and decisions follow from the records."""

import gzip
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from eval import corpus, overview, speed, speed_block, speed_process, speed_runs, speed_tables
from eval.experiment import in_process, report
from eval.page import filled
from tests.support import forked
from tests.support.eval_setup import (
    RESULTS,
    ROOT,
    Run,
    experiment_called,
    made_up,
    rows_of,
    with_word_pairs,
)
from tests.support.needs import needs_gensim


def prepared(file, folder):
    data = with_word_pairs(folder)
    run = Run(experiment_called("speed"), [], quick=False, data=data, corpus=str(file))
    run.folder = folder
    return speed.prepare(run)["corpus"] | {"files": run.files}


def test_a_giant_line_reaches_the_tools_that_read_by_line_in_short_ones(tmp_path):
    words = [f"w{i % 977}" for i in range(300_000)]
    file = tmp_path / "giant.gz"
    file.write_bytes(gzip.compress(" ".join(words).encode()))
    (tmp_path / "work").mkdir()
    about = prepared(file, tmp_path / "work")
    lines = Path(about["files"]["lines"]).read_text().splitlines()
    assert about["one line"]
    assert about["words"] == len(words)
    assert " ".join(lines).split() == words
    assert max(len(line.split()) for line in lines) == corpus.LINE_WORDS
    assert about["files"]["gz"] == str(file)


def test_a_corpus_of_lines_is_given_to_all_tools_as_it_is(two_topics, tmp_path):
    about = prepared(two_topics, tmp_path)
    assert not about["one line"]
    assert about["files"]["lines"] == about["files"]["text"]
    assert gzip.decompress(Path(about["files"]["gz"]).read_bytes()) == two_topics.read_bytes()


def jobs_of(tmp_path, *only, runs=(), quick=False):
    run = Run(experiment_called("speed"), list(only), quick=quick)
    run.records = made_up(
        tmp_path / "raw", [({"kind": "train", **job}, result) for job, result in runs]
    )
    return list(speed.jobs(run))


def test_a_tool_is_left_out_by_naming_the_others(tmp_path):
    assert {job.get("tool") for job in jobs_of(tmp_path, "reading", "embedx")} == {"embedx", "wc"}
    assert {job["file"] for job in jobs_of(tmp_path, "memory", "embedx")} == {"text", "larger"}


def test_recorded_jobs_equal_the_jobs_of_the_experiment():
    """Otherwise --resume would not find the published records."""
    run = Run(experiment_called("speed"), ["start", "reading", "memory"], quick=False, turns=3)
    run.records = speed.EXPERIMENT.records_in(RESULTS)
    assert all(run.records.get(job) for job in speed.jobs(run))


@pytest.mark.parametrize("file", [overview.README, overview.PAGE])
def test_the_tables_of_the_readme_are_made_from_the_records(file):
    text = file.read_text("utf-8")
    assert filled(text, overview.parts()[file], file) == text, "run `python -m eval overview`"


@pytest.mark.parametrize(("below", "expected"), [(0.9, True), (1.1, False), (None, False)])
@pytest.mark.parametrize("judged", speed_tables.JUDGED)
def test_models_count_as_equal_unless_a_confidence_interval_excludes_it(judged, below, expected):
    """Where one was not scored nothing is shown. That tables follow from records is tested with
    those that are published.
    """
    lower = {name: 0.0 for name in speed_tables.JUDGED if name != judged} | (
        {judged: -below * speed_tables.MARGIN} if below else {}
    )
    tests = [SimpleNamespace(test=test, interval=(low, 1.0)) for test, low in lower.items()]
    assert speed_tables.as_good(tests) is expected


@needs_gensim
def test_a_section_is_measured_once_and_reported_again_without_measuring(two_topics, tmp_path):
    command = ["speed", "--quick", "--only", "reading", "embedx", "--results", str(tmp_path)]

    def run(*more):
        completed = forked.run(
            *command, *more, cwd=ROOT, env=forked.environment(tmp_path), code=forked.EVAL
        )
        return completed.stderr, (tmp_path / "speed.md").read_text()

    log, written = run("--set", f"corpus={two_topics}")
    assert "kind feed, tool embedx, file text" in log
    assert "| plain | embedx | 1 |" in written
    assert str(tmp_path) not in written
    log, again = run("--set", f"corpus={two_topics}", "--resume")
    assert "passed]" not in log
    assert again.split("## targets")[1] == written.split("## targets")[1]
    (tmp_path / "speed.md").unlink()
    report(experiment_called("speed"), tmp_path, quick=True)
    assert (tmp_path / "speed.md").read_text() == again


def test_training_by_embedx_is_measured_by_stage(two_topics):
    job = speed.SETTINGS | {"tool": "embedx", "options": {"dim": 10}, "epochs": 1, "threads": 1}
    result = speed_process.train(
        job | {"seed": 1, "file": "text", "score": False}, {"text": str(two_topics)}
    )
    assert result["training"] > 0
    assert result["total"] == result["before"] + result["training"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/status")
def test_memory_is_measured_beside_that_of_the_model(two_topics):
    job = speed.SETTINGS | {"options": {"dim": 10}, "epochs": 1, "threads": 1, "seed": 1}
    result = speed_process.memory(job | {"file": "text"}, {"text": str(two_topics)})
    assert result["matrices"] >= 2 * 4 * 10 * result["words"]
    assert result["anonymous"] > result["vocabulary"] > 0


@pytest.mark.parametrize(
    ("tool", "min_counts"), [("word2vec", ["5", "15"]), ("pWord2Vec", ["5", "5"])]
)
def test_a_program_trains_all_epochs_and_an_epoch_takes_the_difference_of_two_runs(
    tool, min_counts, tmp_path, monkeypatch
):
    """word2vec.c, which would skip epochs, gets the text as many times over."""
    typed = []

    def timed(arguments, environment, folder):
        flags = dict(zip(arguments[-2::-2], arguments[:0:-2], strict=False))
        n_words = len(Path(flags["-train"]).read_text().split()) * int(flags["-iter"])
        typed.append((n_words, flags["-min-count"], flags["-alpha"]))
        (folder / flags["-output"]).write_bytes(b"1 2\nword " + struct.pack("2f", 1, 2) + b"\n")
        return 2 + n_words / 1000

    monkeypatch.setattr(speed_process, "timed", timed)
    lines = tmp_path / "lines"
    program = tmp_path / tool / tool
    lines.write_text("word " * 1000)
    program.parent.mkdir()
    program.touch()
    job = speed.SETTINGS | {"tool": tool, "epochs": 3, "threads": 1, "alpha": 0.05, "score": False}
    result = speed_process.train(job, {"peers": str(tmp_path), "lines": str(lines)})
    assert typed == [(1000, min_counts[0], "0.05"), (3000, min_counts[1], "0.05")]
    assert (result["before"], result["training"], result["total"]) == (2, 3, 5)
    assert len(result["version"]) == 12


def test_peers_train_at_each_rate_on_all_threads_and_at_the_best_one_on_fewer(tmp_path):
    (tmp_path / "word2vec").mkdir()
    (tmp_path / "word2vec" / "word2vec").touch()
    about = {"tool": "word2vec", "purpose": "peers", "megabytes": 20}
    completed = []
    for alpha, score in zip(speed_runs.RATES, (0.2, 0.4, 0.3), strict=True):
        pooled = {"score": score, "pairs": 9, "resampled": [score] * 2}
        completed.append(
            (
                about | {"threads": 2, "alpha": alpha},
                {"pooled": pooled, "training": 2.0, "cpu": 4.0},
            )
        )
    completed = [({"kind": "train", "epochs": 5, **job}, result) for job, result in completed]
    run = Run(
        experiment_called("speed"),
        ["peers", "embedx", "word2vec"],
        quick=False,
        peers=str(tmp_path),
    )
    run.records = made_up(tmp_path / "raw", completed, **{"words of 20 MB": 800})
    settings_of_jobs = [
        (job["threads"], job["alpha"]) for job in speed.jobs(run) if job["tool"] == "word2vec"
    ]
    assert settings_of_jobs == [(2, rate) for rate in speed_runs.RATES] + [(1, speed_runs.RATES[1])]
    row = rows_of(speed_tables.peers(run.records))["2"]
    cells = [
        row[name]
        for name in (
            "tool",
            "rate",
            "CPU s",
            "words/s",
            "words per CPU second",
            "pooled similarity",
        )
    ]
    assert cells == ["word2vec", "0.05", "4.0", "2,000", "1,000", "0.400"]
    assert speed_tables.plot(run.records) is not None
    run = Run(experiment_called("speed"), ["peers", "fastText"], quick=False, peers=str(tmp_path))
    run.records = made_up(tmp_path / "raw", [])
    with pytest.raises(SystemExit, match="fastText/fasttext"):
        list(speed.jobs(run))


def test_the_parts_of_the_training_kernel_are_timed_and_shown(tmp_path):
    """In plain Python, on a few words."""
    text = tmp_path / "text"
    text.write_text("a b c d " * 30)
    job = {"objective": "ns", "turns": 1}
    result = in_process(
        "eval.speed_process", "block", job, {"excerpt": str(text)}, NUMBA_DISABLE_JIT="1"
    )
    assert list(result["seconds"]) == list(speed_block.PARTS)
    assert result["words"] == 120
    assert min(result["rows"], result["multiply_adds"], result["peak"]) > 0
    records = made_up(
        tmp_path / "raw",
        [({"kind": "block", **job}, result | {"seconds": dict.fromkeys(speed_block.PARTS, 1e-6)})],
    )
    row = rows_of(speed_block.parts(records))["ns"]
    assert row["all, ns"] == "50"
    assert row["planning, ns"] == "8"
    assert {"ns", "ar", "ove", "implicit", "sampled-softmax", "bouchard", "umax"} < {
        *speed_block.SAMPLED
    }
