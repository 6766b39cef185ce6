"""eval/speed.py: the corpus reaches every tool whole, records survive an interruption, decisions follow from the records."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import needs_gensim

EVAL = Path(__file__).parent.parent / "eval"


@pytest.fixture
def speed(monkeypatch):
    monkeypatch.syspath_prepend(str(EVAL))
    import speed

    return speed


@pytest.fixture
def speed_records(monkeypatch):
    monkeypatch.syspath_prepend(str(EVAL))
    import speed_records

    return speed_records


def test_a_giant_line_reaches_the_tools_that_read_by_line_in_short_ones(speed, tmp_path):
    words = [f"w{i % 977}" for i in range(300_000)]
    corpus = tmp_path / "giant.gz"
    corpus.write_bytes(gzip.compress(" ".join(words).encode()))
    (tmp_path / "work").mkdir()
    files, about = speed.prepare(corpus, tmp_path / "work", quick=False)
    lines = Path(files["lines"]).read_text().splitlines()
    assert about["one line"]
    assert about["words"] == len(words)
    assert " ".join(lines).split() == words
    assert max(len(line.split()) for line in lines) == speed.LINE_WORDS
    assert files["gz"] == str(corpus)


def test_a_corpus_of_lines_is_given_to_all_tools_as_it_is(speed, two_topics, tmp_path):
    files, about = speed.prepare(two_topics, tmp_path, quick=False)
    assert not about["one line"]
    assert files["lines"] == files["text"]
    assert gzip.decompress(Path(files["gz"]).read_bytes()) == two_topics.read_bytes()


def test_answers_survive_being_written_down(speed_records):
    values = np.array([0.25, np.nan, 1.0, -0.5])
    np.testing.assert_array_equal(speed_records.unpacked(speed_records.packed(values)), values)


def records_with(speed_records, path, runs):
    """A raw file of training runs, given as (job, result)."""
    environment = {"id": "e", "command": "c", "corpus": {"words": 1000}}
    lines = [{"environment": environment}]
    lines += [{"environment": "e", "job": {"kind": "train", **job}, "ended": "", "sources": "", "result": r} for job, r in runs]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return speed_records.Records(path)


def test_the_best_feed_for_a_whole_run_pays_for_its_preparation(speed_records, tmp_path):
    def run(feed, before, training):
        job = {"tool": "gensim", "purpose": "feed", "threads": 1, "feed": feed}
        return job, {"before": before, "training": training}

    records = records_with(speed_records, tmp_path / "raw", [run("slow to prepare", 20, 9), run("slow to train", 1, 10)])
    assert speed_records.best_feed(records, threads=1, epochs=0) == "slow to prepare"
    assert speed_records.best_feed(records, threads=1, epochs=5) == "slow to train"


def test_gensims_better_rate_has_the_higher_sum_of_mean_scores(speed_records, tmp_path):
    def run(alpha, a, b):
        return {"tool": "gensim", "purpose": "full", "alpha": alpha}, {"scores": {"a": a, "b": b}}

    runs = [run(0.1, 0.5, 0.1), run(0.1, 0.9, 0.1), run(0.2, 0.6, 0.3), run(0.2, 0.6, 0.3)]
    records = records_with(speed_records, tmp_path / "raw", runs)
    assert {each["job"]["alpha"] for each in speed_records.tuned_gensim(records)} == {0.2}


@needs_gensim
def test_a_section_is_measured_once_and_reported_again_without_measuring(two_topics, tmp_path):
    page = tmp_path / "page.md"
    command = [sys.executable, str(EVAL / "speed.py"), "--quick", "--sections", "start", "--output", str(page)]

    def run(*more):
        done = subprocess.run([*command, *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr, page.read_text()

    told, written = run("--corpus", str(two_topics))
    assert "start 3/3" in told
    assert "| `embedx --help`: under 0.5 s |" in written
    assert str(tmp_path) not in written
    told, again = run("--corpus", str(two_topics), "--resume")
    assert "start" not in told
    assert again == written
    page.unlink()
    assert run("--report-only")[1] == written
