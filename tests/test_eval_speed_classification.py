"""eval/speed.py classification: options choose contenders, the data reach every tool whole, the page follows the records."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labels
from embedx.labeled.read import read_training

EVAL = Path(__file__).parent.parent / "eval"


@pytest.fixture(autouse=True)
def _eval_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EVAL))


@pytest.fixture
def main():
    import speed_classification

    return speed_classification


@pytest.fixture
def page():
    import speed_classification_page

    return speed_classification_page


@pytest.fixture
def options(main, tmp_path):
    """Parses options for a folder that has all data files."""
    for files in main.FILES.values():
        for file in files:
            (tmp_path / file).parent.mkdir(exist_ok=True)
            (tmp_path / file).touch()
    return lambda *more: main.parsed(["--data", str(tmp_path), "--results", str(tmp_path), *more])


# ---- which jobs


def svc_on_eurlex(main, chosen):
    return [main.is_slow(job) for job in main.jobs_of(chosen)]


def test_the_slow_contender_runs_only_when_asked_for_last_and_once(main, options):
    assert not any(svc_on_eurlex(main, options()))
    for asked in (["--all"], ["--contenders", "omikuji", "linearsvc"]):
        slow = svc_on_eurlex(main, options(*asked))
        assert sum(slow) == 1
        assert slow[-1]


def test_contenders_take_turns(main, options):
    jobs = list(main.jobs_of(options("--sections", "eurlex", "--repetitions", "2")))
    assert [job["turn"] for job in jobs] == sorted(job["turn"] for job in jobs)
    assert {job["turn"] for job in jobs} == {1, 2}
    assert len({json.dumps(job) for job in jobs}) == len(jobs)


def test_contenders_and_sections_choose(main, options):
    jobs = list(main.jobs_of(options("--contenders", "napkinxc", "--sections", "small")))
    assert {(job["tool"], job["dataset"]) for job in jobs} == {("napkinXC", "bibtex")}


def test_the_exact_softmax_is_left_out_where_labels_are_a_million(main):
    labels = {job["labels"] for job in main.scaling_jobs(1, quick=False) if job["objective"] == "softmax"}
    assert max(labels) == main.EXACT_LABELS < max(main.LABELS)


def test_settings_of_embedx_are_settings_that_there_are(main):
    from embedx import objectives
    from embedx.classification.task import ClassifySettings

    for job in [*main.EURLEX.values(), *main.BIBTEX.values(), *main.ONE_LABEL.values(), *main.scaling_jobs(1, quick=False)]:
        if job["tool"].startswith("embedx"):
            found = objectives.find(job["objective"]).Settings.from_options(job["options"])
            settings = ClassifySettings.from_options(job["options"])
            assert set(job["options"]) <= set(found.record()) | set(settings.record())


def test_old_records_are_not_overwritten_unasked(options, tmp_path, capsys):
    (tmp_path / "speed-classification.jsonl").touch()
    with pytest.raises(SystemExit):
        options()
    assert "--resume" in capsys.readouterr().err
    assert options("--resume").resume


def test_a_failure_is_tried_again_and_a_result_is_kept(main, tmp_path):
    from speed_records import Records

    records = Records(tmp_path / "raw", {"id": "e", "command": "c"})
    records.add({"name": "a"}, {"error": "no memory"}, "")
    assert not main.measured(records, {"name": "a"})
    records.add({"name": "a"}, {"training": 1.0}, "")
    assert main.measured(records, {"name": "a"})


# ---- data and scores


def test_both_text_files_hold_every_feature_and_label(main, tmp_path):
    features = csr_matrix(np.array([[0, 0.5, 0], [0.25, 0, 1]], dtype=np.float32))
    labels = Labels.of_rows([[1, 3], [0]])
    main.write_lines(tmp_path / "train", features, labels, 4)
    data, _ = read_training(str(tmp_path / "train.txt"))
    np.testing.assert_array_equal(data.features.toarray(), features.toarray())
    assert [list(data.labels[row]) for row in range(2)] == [[1, 3], [0]]
    assert (tmp_path / "train.ft").read_text() == "__label__1 __label__3\tf1\n__label__0\tf0 f2\n"
    assert main.indicator(labels, 4).toarray().tolist() == [[0, 1, 0, 1], [1, 0, 0, 0]]


def test_precision_counts_a_missing_answer_as_a_miss():
    from speed_classification_measure import filled, precision

    truth = csr_matrix(np.array([[1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 1]], dtype=np.float32))
    found = precision(filled([[0, 1, 2, 3, 4], []]), truth)
    assert found == pytest.approx({"p@1": 1 / 2, "p@3": 2 / 6, "p@5": 2 / 10})


def test_rows_touched_are_the_label_and_the_draws_the_path_or_all():
    from speed_classification_measure import rows_touched

    from embedx import objectives

    counts = np.ones(8, dtype=np.int64)

    def touched(name, **options):
        found = objectives.find(name)
        objective = found(found.Settings.from_options(options))
        objective.prepare(counts)
        return rows_touched(objective, counts)

    assert touched("ns", negatives=7) == 8
    assert touched("hs") == 3
    assert touched("softmax") == 8


# ---- the page


def several(name, tool, training, p, **more):
    job = {"section": "eurlex", "dataset": "eurlex", "name": name, "tool": tool, "threads": 2, "turn": 1}
    scores = {"p@1": p, "p@3": p, "p@5": p}
    result = {"reading": 1.0, "training": training, "prediction": 1.0, "size": 1e6, "used": {"C": 2.5}, **scores, **more}
    return job, result


def scaled_run(objective, n_labels, microseconds, **options):
    job = {
        "section": "scaling", "dataset": "random", "tool": "embedx scaling", "objective": objective, "labels": n_labels,
        "features": 100, "threads": 1, "turn": 1, "name": objective, "options": {"optimizer": "adagrad", **options},
    }  # fmt: skip
    return job, {"microseconds": microseconds, "seconds": 1.0, "rows": 6.0, "flops": 100.0, "used": {}}


def written(page, path, runs):
    from speed_records import Records

    data = {"quick": False, "sha256": {"eurlex": "abc"}}
    machine = {"cpu": "a processor", "cores": 2, "system": "Linux"}
    environment = {"id": "e", "command": "the command", "data": data, "machine": machine, "versions": {"Python": "3"}}
    records = Records(path, environment)
    for job, result in runs:
        records.add(job, result, "hash")
    return page.page(records, {})


def test_the_fastest_embedx_that_is_as_accurate_stands_beside_each_peer(page, tmp_path):
    text = written(
        page,
        tmp_path / "raw",
        [
            several("embedx quick", "embedx", 1.0, 0.60),
            several("embedx good", "embedx", 3.0, 0.698, size=5e6),
            several("embedx slow", "embedx", 9.0, 0.72),
            several("tree", "omikuji", 6.0, 0.70, size=1e6, version="0.5"),
            several("best", "PECOS", 6.0, 0.80, version="1.2"),
        ],
    )
    assert "**tree** (P@1 0.7000, P@5 0.7000): embedx good takes 0.5 × its training time" in text
    assert "tree wins over embedx good in size of the model (5 × for embedx)." in text
    assert "no embedx above is as accurate; the best, embedx slow, has P@1 0.7200" in text
    assert "best wins in accuracy" in text
    assert "omikuji 0.5, PECOS 1.2" in text
    assert "- tree: C 2.5" in text
    assert "    the command" in text


def test_a_row_is_the_median_of_its_turns(page, tmp_path):
    runs = [several("embedx", "embedx", seconds, 0.5) for seconds in (1.0, 2.0, 9.0)]
    assert "| embedx | 3 | 1.00 | 2.00 |" in written(page, tmp_path / "raw", runs)


def test_a_contender_that_failed_is_told(page, tmp_path):
    job, _ = several("peer", "omikuji", 1.0, 0.5)
    text = written(page, tmp_path / "raw", [(job, {"error": "no | memory"}), several("embedx", "embedx", 1.0, 0.5)])
    assert "| peer | 0 | failed: no / memory |" in text
    assert "peer wins" not in text


def test_scaling_tells_growth_and_the_gain_over_the_exact_softmax(page, tmp_path):
    runs = [scaled_run("ns", k, time, negatives=5) for k, time in ((1000, 2.0), (100_000, 3.0))]
    runs += [scaled_run("softmax", k, time) for k, time in ((1000, 20.0), (100_000, 3000.0))]
    text = written(page, tmp_path / "raw", runs)
    expected = (
        "ns, 5 draws, adagrad, one thread: 1.5 × the time for 100 × the labels; at 100,000 labels the exact softmax takes"
    )
    assert expected + " 1e+03 × its time." in text
    assert "6.0 rows, 100 FLOP" in text
    assert "Not measured: EURLex-4.3K, Small data." in text


def test_what_was_measured_is_reported_again_without_measuring(page, tmp_path):
    text = written(page, tmp_path / "speed-classification.jsonl", [several("embedx", "embedx", 1.0, 0.5)])
    command = [sys.executable, str(EVAL / "speed.py"), "classification", "--report-only", "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = (tmp_path / "speed-classification.md").read_text()
    assert text.splitlines()[:8] == again.splitlines()[:8]
    assert "| embedx | 1 |" in again
