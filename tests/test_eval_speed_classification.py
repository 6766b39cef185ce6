"""eval speed-classification: which jobs run, what tools read, how they are scored, and tables that
follow from the records.
"""

import gzip

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from embedx import objectives
from embedx.classification.settings import ClassifySettings
from embedx.evaluation.labels import LabelMetrics
from embedx.labeled.data import Labels
from embedx.labeled.read import read_training
from eval import classification_process as process, speed_classification as main
from eval.generated_labels import FEATURES, LABELS_OF_ROW, generated
from tests.support.eval_setup import RESULTS, Run, experiment_called, made_up, rows_of


def jobs_of(*only, quick=False, **settings):
    run = Run(experiment_called("speed-classification"), list(only), quick=quick, **settings)
    run.need = lambda peer, package: True
    return list(main.jobs(run))


# ---- which jobs


def test_pecos_needs_its_interpreter_in_a_full_run(capsys):
    with pytest.raises(SystemExit, match="pecos_python=INTERPRETER"):
        jobs_of("pecos", "eurlex")
    assert jobs_of("pecos", "eurlex", quick=True) == []
    assert "PECOS is left out" in capsys.readouterr().err
    assert len(jobs_of("pecos", "eurlex", pecos_python="python")) == 3


def test_settings_of_embedx_are_settings_that_there_are():
    for job in [
        *main.SEVERAL_LABELS.values(),
        *main.ONE_LABEL.values(),
        *main.scaling_jobs(1, quick=False),
    ]:
        if job["tool"].startswith("embedx"):
            objective_settings = objectives.find(job["objective"]).Settings.from_options(
                job["options"]
            )
            settings = ClassifySettings.from_options(job["options"])
            assert set(job["options"]) <= set(objective_settings.record()) | set(settings.record())


# ---- data and scores


def test_both_text_files_hold_every_feature_and_label(tmp_path):
    features = csr_matrix(np.array([[0, 0.5, 0], [0.25, 0, 1]], dtype=np.float32))
    labels = Labels.of_rows([[1, 3], [0]])
    main.write_lines(tmp_path / "train", features, labels, 4)
    data = read_training(str(tmp_path / "train.txt"))
    np.testing.assert_array_equal(data.features.toarray(), features.toarray())
    assert [list(data.labels[row]) for row in range(2)] == [[1, 3], [0]]
    assert (tmp_path / "train.ft").read_text() == "__label__1 __label__3\tf1\n__label__0\tf0 f2\n"
    assert main.indicator(labels, 4).toarray().tolist() == [[0, 1, 0, 1], [1, 0, 0, 0]]


def test_propensity_scores_are_those_of_embedx_eval_and_bins_tell_calibration(tmp_path):
    rng = np.random.default_rng(1)
    trained, truth = ((rng.random((50, 8)) < 0.3).astype(np.float32) for _ in range(2))
    save_npz(tmp_path / "train.Y.npz", csr_matrix(trained))
    top = np.argsort(rng.random((50, 8)), axis=1)[:, :5]
    right = truth[np.arange(50), top[:, 0]]
    scores = process.quality(top, csr_matrix(truth), {"folder": str(tmp_path)}, right * 0.5)
    metrics = LabelMetrics(8, trained.sum(axis=0).astype(np.int64), 50)
    metrics.add_ranked(top, Labels.of_rows([np.flatnonzero(row) for row in truth]))
    expected = metrics.result()
    assert {name: scores[name] for name in ("psp@1", "psp@3", "psp@5")} == pytest.approx(
        {name: expected[name] for name in ("psp@1", "psp@3", "psp@5")}
    )
    assert scores["calibration"] == pytest.approx(right.mean() / 2)


def test_a_data_set_is_written_once_and_measured_in_a_process(tmp_path):
    """From files to scores: embedx learns which of two features stands for which label."""
    folder = tmp_path / "xc" / "eurlex-4.3k"
    folder.mkdir(parents=True)
    rows = [f"{row % 2} {row % 2}:1" for row in range(40)]
    for half in ("train", "test"):
        (folder / f"{half}.txt.gz").write_bytes(
            gzip.compress("\n".join(["40 2 6", *rows, ""]).encode())
        )
    run = Run(experiment_called("speed-classification"), [], quick=True, data=tmp_path)
    run.folder = tmp_path
    job = {"dataset": "eurlex", "name": "embedx", "threads": 1, "turn": 1} | main.embedx(
        "ova", epochs=5, optimizer="adagrad"
    )
    result = main.measure(run, job)
    assert result["p@1"] == 1.0, result
    assert result["used"]["epochs"] == 5
    assert (tmp_path / "eurlex" / "train.ft").exists()


# ---- tables


def several(name, tool, training, p, turn=1, **more):
    job = {
        "section": "eurlex",
        "dataset": "eurlex",
        "name": name,
        "tool": tool,
        "threads": 2,
        "turn": turn,
    }
    scores = {"p@1": p, "p@3": p, "p@5": p}
    result = {
        "reading": 1.0,
        "training": training,
        "prediction": 1.0,
        "size": 1e6,
        "used": {"C": 2.5},
        **scores,
        **more,
    }
    return job, result


@pytest.mark.parametrize("measure", ["p@1", "p@5"])
def test_equal_accuracy_needs_p_at_1_and_p_at_5(measure):
    peer = {"p@1": 0.5, "p@5": 0.5}
    assert main.as_accurate(peer | {measure: 0.5 - 0.9 * main.MARGIN}, peer)
    assert not main.as_accurate(peer | {measure: 0.5 - 1.1 * main.MARGIN}, peer)


def test_a_contender_that_failed_is_reported(tmp_path):
    job, _ = several("peer", "omikuji", 1.0, 0.5)
    records = made_up(
        tmp_path / "raw", [(job, {"error": "no | memory"}), several("embedx", "embedx", 1.0, 0.5)]
    )
    row = rows_of(main.several_labels("eurlex", records))["peer"]
    assert (row["runs"], row["s training"]) == ("0", "failed: no / memory")
    assert rows_of(main.equal_quality("eurlex", records)) == {}
    assert records.get(job) is None  # so that --resume tries again


def test_published_records_are_those_that_resuming_finds():
    records = experiment_called("speed-classification").records_in(RESULTS)
    settings = {"pecos_python": "python", "repetitions": 1}
    assert all(records.get(job) for job in jobs_of("embedx", "sklearn", **settings))


# ---- growth


def test_generated_labels_have_the_documented_distribution():
    features, labels = generated(50, 300, seed=1)
    assert (features.shape, labels.shape) == ((300, FEATURES), (300, 50))
    np.testing.assert_allclose(features.multiply(features).sum(axis=1), 1, rtol=1e-5)
    n_labels = np.diff(labels.indptr)
    assert (n_labels.min() >= 1, n_labels.max()) == (True, LABELS_OF_ROW)
    counts = np.bincount(labels.indices, minlength=50)
    assert counts[:5].sum() > counts[5:].sum() / 2  # a power law
    again, _ = generated(50, 300, seed=1)
    assert (again != features).nnz == 0
    # labels have the same words in data of another seed
    other_features, other_labels = generated(50, 300, seed=2)
    sums = (labels.T @ features).toarray()
    other_sums = (other_labels.T @ other_features).toarray()
    directions = normalised(sums - sums.mean(axis=0))
    similar = directions @ normalised(other_sums - other_sums.mean(axis=0)).T
    seen = counts > 20
    assert (similar[seen].argmax(axis=1) == np.flatnonzero(seen)).mean() > 0.9


def normalised(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
