"""eval papers-...: each experiment on tiny data, from its jobs to its tables and pictures; its
data, its search for rates.
"""

import gzip
import itertools
import struct

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.kernels.batch import new_batch
from embedx.labeled.data import Labeled, Labels
from eval import (
    __main__ as command,
    datasets,
    papers,
    papers_adversarial as script,
    papers_augment_and_reduce,
    papers_one_vs_each_fits,
    papers_unbiased_jobs,
    papers_unbiased_published,
    papers_unbiased_runs,
)
from eval.papers_variants import VARIANTS
from tests.support.eval_setup import (
    EXPERIMENTS,
    RESULTS,
    Records,
    Run,
    environment,
    experiment_called,
    rows_of,
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder in which every data set is there: features 2k and 2k + 1 tell label k, of eight."""
    rng = np.random.default_rng(0)

    def lines(n):
        labels = rng.permutation(np.arange(n) % 8)
        rows = [
            f"{label} {2 * label + rng.integers(2)}:1 {rng.integers(16, 20)}:0.5"
            for label in labels
        ]
        return gzip.compress("\n".join([f"{n} 20 8", *rows, ""]).encode())

    for name in ("bibtex", "omniglot", "eurlex-4.3k", "mnist"):
        folder = tmp_path / "xc" / name
        folder.mkdir(parents=True)
        for half, n in (("train", 80), ("test", 40)):
            (folder / f"{half}.txt.gz").write_bytes(lines(n))
    for kind in ("train", "t10k"):
        images = rng.integers(256, size=(20, 3, 3), dtype=np.uint8)
        labels = rng.integers(3, size=20, dtype=np.uint8)
        head = tmp_path / "xc" / "mnist"
        (head / f"{kind}-images-idx3-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">HBBIII", 0, 8, 3, 20, 3, 3) + images.tobytes())
        )
        (head / f"{kind}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">HBBI", 0, 8, 1, 20) + labels.tobytes())
        )
    papers.load.cache_clear()
    for module, cached in (
        (papers_augment_and_reduce, "prepared"),
        (papers_one_vs_each_fits, "load_numbered"),
        (papers_unbiased_runs, "prepared"),
    ):
        getattr(module, cached).cache_clear()
    return tmp_path


def measured(name, data, *only, folder=None):
    """The records of a trial of some sections, of which a second run measures nothing more."""
    folder = folder or data
    run = Run(experiment_called(name), list(only), quick=True, data=data)
    run.records = Records(folder / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    n = len((folder / "raw").read_text().splitlines())
    run.measure(resume=True)
    assert len((folder / "raw").read_text().splitlines()) == n
    return run.records


def test_one_vs_each_is_measured_and_its_tables_hold_the_order_of_bounds(data):
    sections = ("table-2", "figure-1", "figure-1b", "figure-3", "stopped", "splits")
    records = measured("papers-one-vs-each", data, *sections, "bibtex", "mnist")
    tables = experiment_called("papers-one-vs-each").tables
    rows = tables["table-2"](records).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows][-1] == "OVE-SGD"
    assert len(rows) == 7 + 4
    assert float(rows_of(tables["figure-1"](records))["OVE"]["largest difference"]) < 1e-3
    assert tables["toy"](records) == "Not measured."
    in_the_plane = rows_of(tables["figure-1b"](records))
    likelihood, ove, bouchard = (
        float(in_the_plane[method]["bound on log-likelihood"])
        for method in ("SOFT", "OVE", "BOUCHARD")
    )
    assert likelihood > ove > bouchard
    assert in_the_plane["SOFT"]["plane decided otherwise than by SOFT"] == "0.0 %"
    assert len(tables["figure-3"](records).splitlines()) == 2 + 2 * 4
    assert "at a tenth of the tolerance" in tables["stopped"](records)
    assert len(rows_of(tables["splits"](records))) == 2 + 4
    plots = experiment_called("papers-one-vs-each").plots
    assert plots["-plane"](records) is not None
    assert plots["-evolution"](records) is not None
    assert plots[""](records) is None  # the toy was not measured


def test_one_vs_each_of_a_single_data_set_needs_no_other():
    experiment = experiment_called("papers-one-vs-each")
    for name in (*papers_one_vs_each_fits.DATA, papers_one_vs_each_fits.LARGE):
        assert experiment.needs(Run(experiment, [name], quick=True)) == [name]


def test_one_vs_each_by_sgd_of_the_large_set_has_an_error_by_either_reading_of_its_rate(tmp_path):
    papers.load.cache_clear()
    papers_one_vs_each_fits.load_numbered.cache_clear()
    records = measured("papers-one-vs-each", None, "large", folder=tmp_path)
    table = rows_of(experiment_called("papers-one-vs-each").tables["large"](records))
    assert list(table) == list(papers_one_vs_each_fits.LARGE_GRADIENTS)
    assert {row["error: paper"] for row in table.values()} == {"0.531"}


def test_a_label_that_training_never_saw_is_a_mistake_and_left_out_of_nlpd():
    log_p = np.log(np.array([[0.5, 0.5], [0.25, 0.75]]))
    scores = papers_one_vs_each_fits.scores_of(log_p, np.array([2, 1]))
    assert (scores["error"], scores["unknown"]) == (0.5, 1)
    assert scores["nlpd"] == pytest.approx(-np.log(0.75))


def test_augment_and_reduce_is_measured_and_has_a_row_for_each_method(data):
    records = measured("papers-augment-and-reduce", data, "bibtex", "time")
    tables = experiment_called("papers-augment-and-reduce").tables
    rows = rows_of(tables["bibtex"](records))
    assert list(rows) == list(papers_augment_and_reduce.METHODS.values())
    assert all(-3 < float(row["ours clamped"]) < 0 for row in rows.values())
    assert rows["exact softmax"]["clamped: paper"] == "-3.188"
    assert tables["mnist"](records) == "Not measured."
    training, test = papers_augment_and_reduce.prepared(data, "bibtex", True)
    assert (len(training), len(test), training.n_features, training.n_labels) == (80, 40, 20, 8)
    assert len(tables["times"](records).splitlines()) == 2 + 3 * 4
    assert experiment_called("papers-augment-and-reduce").plots[""](records) is not None


def test_unbiased_softmax_is_measured_and_has_a_row_for_each_method(data):
    sections = ("full", "variants", "double-sums", "published")
    records = measured("papers-unbiased-softmax", data, *sections, "bibtex")
    tables = experiment_called("papers-unbiased-softmax").tables
    rows = rows_of(tables["bibtex-tuned"](records))
    assert list(rows) == list(papers_unbiased_jobs.METHODS)
    assert rows["Implicit"]["train log-loss, seed 1 − seed 2"] != "–"
    assert rows_of(tables["bibtex-sums"](records))["0.1"]["ours: Raman"] != "–"
    assert rows_of(tables["bibtex-published"](records))["0.1"]["u from log K: Raman"] != "–"
    assert tables["mnist-tuned"](records) == "Not measured."
    assert "Vanilla (m=1)" in tables["variants"](records)
    assert all(
        draw(records) is not None
        for draw in experiment_called("papers-unbiased-softmax").plots.values()
    )


def test_unbiased_softmax_of_another_data_set_has_rows_and_no_picture_of_rates(tmp_path):
    for cached in (papers.load, papers_unbiased_runs.prepared):
        cached.cache_clear()
    only = ("full", "lshtc-wiki-small", "Implicit")
    records = measured("papers-unbiased-softmax", None, *only, folder=tmp_path)
    experiment = experiment_called("papers-unbiased-softmax")
    assert "| lshtc-wiki-small | Implicit |" in experiment.tables["other-sets-paper"](records)
    assert experiment.plots["-rates"](records) is None


@pytest.mark.parametrize(
    ("name", "measured_sets"),
    [
        ("papers-augment-and-reduce", ["mnist", "bibtex", "omniglot", "time", "toy", "why"]),
        ("papers-one-vs-each", ["table-2", "figure-1", "figure-1b", "toy", "bibtex", "mnist"]),
        ("papers-unbiased-softmax", papers_unbiased_jobs.TABULATED),
    ],
)
def test_published_records_are_those_that_resuming_finds(name, measured_sets):
    run = Run(experiment_called(name), list(measured_sets), quick=False)
    run.records = Records(RESULTS / f"{name}.jsonl", mixed=True)
    jobs = list(run.experiment.jobs(run))
    assert sum(run.records.get(job) is not None for job in jobs) >= 0.9 * len(jobs)


def point(seconds, accuracy, epochs=1.0):
    return {
        "seconds": seconds,
        "epochs": epochs,
        "accuracy": accuracy,
        "accuracy error": 0.01,
        "log-likelihood": accuracy - 3,
        "log-likelihood error": 0.01,
    }


def test_labels_are_numbered_by_those_of_training_rows_and_every_row_with_one_is_kept():
    features = np.arange(100, dtype=np.float32)[:, None]
    several = Labels.of_rows([[7 * (i // 2), 3] for i in range(100)])  # of which the first counts
    training = Labeled(features, several, 600)
    test = Labeled(features[:60] + 1000, Labels.single(7 * np.arange(60)), 600)
    split = script.split_rows(training, test, 90)
    apart = set(split.training.features[:, 0]), set(split.validation.features[:, 0])
    assert not apart[0] & apart[1]
    assert len(apart[0]) == 90
    seen = sorted({7 * (int(x) // 2) for x in apart[0]})
    assert split.training.n_labels == len(seen)
    assert sorted(set(split.training.labels.ids)) == list(range(len(seen)))
    assert [seen[y] for y in split.test.labels.ids] == [
        7 * (x - 1000) for x in split.test.features[:, 0]
    ]
    assert len(split.test) == len(seen)


@pytest.mark.parametrize("top", [(5, 3), (-6, 0), (-2, 1)])
def test_the_search_finds_a_peak_wherever_it_lies_and_tries_both_sides(tmp_path, top):
    run = Run(experiment_called("papers-adversarial"), [], quick=False)
    run.records = Records(tmp_path / "raw", environment(), mixed=True)
    for job in script.search(run, "eurlex", "uniform"):
        cell = np.log10(job["rate"]) * 4, np.log10(job["penalty"]) + 5 if job["penalty"] else 0
        height = 1 - 0.01 * np.hypot(cell[0] - top[0], 2 * (cell[1] - top[1]))
        diverged = cell[0] > 6
        run.records.add(job, {"points": [] if diverged else [point(3, height)]}, "s")
    tried = {(record["job"]["rate"], record["job"]["penalty"]) for record in run.records.find()}
    rates = [float(f"{10 ** ((top[0] + step) / 4):.3g}") for step in (-1, 0, 1)]
    penalties = [
        float(f"{10.0 ** (j - 5):.3g}") if j else 0.0 for j in range(max(top[1] - 1, 0), top[1] + 2)
    ]
    best = script.best_of(run.records, "eurlex", "uniform")
    assert (best["rate"], best["penalty"]) == (rates[1], penalties[-2])
    assert {(rate, best["penalty"]) for rate in rates} <= tried
    assert set(penalties) <= {penalty for _, penalty in tried}


def test_one_data_set_from_its_search_to_its_table(tmp_path, monkeypatch):
    """An epoch takes 6 ms here, on any machine: 50 of them in the time of a curve."""
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    ticks = itertools.count()
    monkeypatch.setattr(script.time, "process_time", lambda: 0.006 * next(ticks))
    run = Run(
        experiment_called("papers-adversarial"), ["eurlex", "uniform", "adversarial"], quick=True
    )
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    for contender, seeds in script.curves(run.records, "eurlex").items():
        best = script.best_of(run.records, "eurlex", contender)
        assert len(seeds) == 2
        for seed in seeds:
            assert (seed["rate"], seed["penalty"]) == (best["rate"], best["penalty"])
            # its end may be lower, by a rate that was best in a shorter run
            (highest,) = script.highest([seed], "accuracy")
            assert highest > 0.05  # guessing has 0.003
            seconds = [one["seconds"] for one in seed["points"]]
            assert seconds == sorted(seconds)
    assert set(rows_of(script.results("eurlex", run.records))) == {"uniform", "adversarial"}
    assert script.results("categories", run.records) == "Not measured."


def test_the_paper_s_own_data_of_adversarial_noise_have_its_rates_and_numbers(tmp_path):
    papers.load.cache_clear()
    script.data_of.cache_clear()
    records = measured("papers-adversarial", None, "eurlex-4k", folder=tmp_path)
    jobs = [record["job"] for record in records.find(data="eurlex-4k")]
    assert [(job["contender"], job["rate"], job["penalty"]) for job in jobs] == [
        ("softmax", 0.3, 0.0003),
        ("uniform", 0.003, 0.0003),
    ]
    assert "0.336" in script.published(records)
    assert script.plot(records) is None
    assert script.published_settings("amazon-670k", "ove")["penalty"] == 2.04e-7


PAPERS = [name for name in EXPERIMENTS if name.startswith("papers-")]


@pytest.mark.parametrize("name", PAPERS)
def test_missing_data_are_one_line_and_a_mistake_of_the_user(name, workdir, monkeypatch, capsys):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    with pytest.raises(SystemExit) as ended:
        command.main([name, "--results", str(workdir / "results")])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "python -m eval data eurlex-4.3k" in line or "embedx corpus fetch mnist`, 11.6 MB" in line
    )
    assert not (workdir / "results").exists()


def test_a_single_missing_set_says_which_file_to_put_where(workdir, monkeypatch, capsys):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    with pytest.raises(SystemExit):
        command.main(["papers-augment-and-reduce", "--only", "eurlex-4k"])
    (line,) = capsys.readouterr().err.splitlines()
    assert "Eurlex/eurlex_train.txt and Eurlex/eurlex_test.txt" in line


def test_a_row_of_a_paper_runs_once_its_data_are_there(workdir, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    (workdir / "Eurlex").mkdir()
    rows = [f"{n % 3} {n % 3}:1 3:0.5" for n in range(60)]
    for half in ("train", "test"):
        (workdir / "Eurlex" / f"eurlex_{half}.txt").write_text("\n".join(["60 4 3", *rows, ""]))
    papers.load.cache_clear()
    papers_augment_and_reduce.prepared.cache_clear()
    records = measured("papers-augment-and-reduce", None, "eurlex-4k", folder=workdir)
    table = experiment_called("papers-augment-and-reduce").tables["other-sets"](records)
    assert "| EURLex-4K | A&R softmax | -4.593 |" in table


@pytest.mark.parametrize("name", PAPERS)
def test_every_data_set_that_a_paper_names_has_jobs(name, tmp_path):
    """And a recipe, so that what is missing is one line."""
    experiment = experiment_called(name)
    choices = {word: kind for kind, words in experiment.choices.items() for word in words}
    for word in [word for word in choices if choices[word] in ("data", "section")]:
        run = Run(experiment, [word], quick=False)
        run.records = Records(tmp_path / "raw", environment(), mixed=True)
        assert next(experiment.jobs(run), None)
        for needed in experiment.needs(run):
            assert datasets.recipe_of(needed, None).how_to_get()


def test_numbers_of_a_paper_stand_beside_other_forms_of_its_data():
    numbers = papers.printed("papers-augment-and-reduce")
    assert numbers["omniglot-grey"] == numbers["omniglot"]
    assert papers.printed("papers-unbiased-softmax")["rates"]["delicious-mulan"]["OVE"] == 10


def test_features_of_eurlex_are_divided_by_their_maximum_in_training_rows(workdir, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    (workdir / "Eurlex").mkdir()
    (workdir / "Eurlex" / "eurlex_train.txt").write_text("2 3 2\n0 0:4 1:2\n1 0:1\n")
    (workdir / "Eurlex" / "eurlex_test.txt").write_text("1 3 2\n0 0:8 2:3\n")
    papers.load.cache_clear()
    papers_augment_and_reduce.prepared.cache_clear()
    training, test = papers_augment_and_reduce.prepared(None, "eurlex-4k")
    assert training.features.toarray().tolist() == [[1, 1, 0], [0.25, 0, 0]]
    assert test.features.toarray().tolist() == [[2, 0, 3]]


def test_generated_data_stand_for_what_is_missing_in_a_trial(workdir, monkeypatch, capsys):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    run = Run(experiment_called("papers-one-vs-each"), [], quick=True)
    run.check_data()
    assert "generated data stand for" in capsys.readouterr().err
    for name in ("mnist", "bibtex"):
        papers.load.cache_clear()
        training, test = papers.load(None, name, True)
        assert len(training) == papers.QUICK_ROWS
        assert (training.n_features, training.n_labels) == (test.n_features, test.n_labels)


def test_a_corpus_or_a_folder_that_is_not_there_is_a_mistake_of_the_user(workdir, monkeypatch):
    for arguments in (["--data", "nowhere"], ["--set", "corpus=nowhere.txt"]):
        with pytest.raises(SystemExit) as ended:
            command.main(["papers-ldgs", "--only", "next-word", "--results", "r", *arguments])
        assert ended.value.code == 2


# ---- objectives that differ in one point


def of_batch(name, z, label, drawn, expected=1.0, n_updates=0, state=(0.0,), **settings):
    """Loss, derivatives and state of a variant for one example."""
    objective = VARIANTS[name]
    objective = objective(objective.Settings(**settings))
    batch = new_batch(1, len(z), objective.uniforms_width)
    batch.z[0] = z
    batch.label[0] = label
    batch.sample_count[0] = drawn
    batch.log_expected_count[0] = np.where(batch.sample_count[0] > 0, np.log(expected), 0)
    batch.n_updates[:] = n_updates
    after = np.array([state], np.float32)
    constants = objective.constants(1, len(z))
    loss = objective.coefficients(batch, after, constants, 1, len(z), np.float32(0.5))
    return loss, batch.z[0], after[0]


def test_local_steps_by_iterations_are_those_of_an_input_visited_as_often():
    z = [1.0, 0.0, 2.0]
    label = [1, 0, 0]
    drawn = [0, 1, 1]
    settings = {"augment": "noise", "threshold": 1e9}
    _, _, state = of_batch(
        "ar-by-iterations", z, label, drawn, n_updates=3, state=(0.5,), minibatches=10, **settings
    )
    share = (1 + 3 * 10) ** -0.9
    seen = 1 + np.exp(-1) + np.exp(1)
    assert state[0] == pytest.approx(np.log((1 - share) * np.exp(0.5) + share * seen), rel=1e-5)


def test_without_the_cap_a_step_of_u_may_end_above_the_estimate_of_the_normaliser():
    z = [1.0, 0.0, 2.0]
    label = [1, 0, 0]
    drawn = [0, 1, 1]
    settings = {"double_sum": "proposed", "threshold": 10.0}
    u = 0.9
    _, _, state = of_batch("umax-uncapped", z, label, drawn, n_updates=1, state=(u,), **settings)
    estimate = np.log(1 + np.exp(-1) + np.exp(1))
    assert state[0] == pytest.approx(u - 0.5 * (1 - np.exp(estimate - u)), rel=1e-5)
    *_, far = of_batch("umax-uncapped", z, label, drawn, n_updates=1, state=(0.1,), **settings)
    assert far[0] > estimate


def first_steps_as_published(form, first_u):
    """The weights of two classes after one row of the second class, for several seeds: where the
    positive is drawn, there is no step.
    """
    for seed in range(20):
        yield papers_unbiased_published.train(
            csr_matrix([[2.0]]),
            np.array([1]),
            2,
            form=form,
            rate=0.1,
            decay=1.0,
            epochs=1,
            m=1,
            seed=seed,
            first_u=first_u,
        )[:, 0]


@pytest.mark.parametrize(
    ("form", "first_u", "gradient"),
    [
        ("proposed", 0.5, [2 * np.exp(-0.5), -2 * np.exp(-0.5)]),
        ("Raman", 0.5, [2 * np.exp(-0.5), -2 * (1 - np.exp(-0.5))]),
        ("Raman as coded", 0.5, [2 * np.exp(-0.5), -(1 - np.exp(-0.5))]),
        # more than 1 below the estimate log 2, to which it is raised
        ("proposed", -1.0, [2 * 0.5, -2 * 0.5]),
    ],
)
def test_a_first_step_of_the_published_u_max_is_that_of_its_form(form, first_u, gradient):
    steps = [weights for weights in first_steps_as_published(form, first_u) if weights.any()]
    assert 0 < len(steps) < 20
    for weights in steps:
        assert weights == pytest.approx(-0.1 * np.array(gradient))


def test_a_joint_candidate_set_has_all_labels_of_a_row_in_its_sum():
    z = np.array([1.0, 0.0, 2.0, -1.0])
    label = [1, 1, 0, 0]
    drawn = [0, 0, 1, 0]
    loss, derivatives, _ = of_batch("sampled-softmax-joint", z, label, drawn)
    p = np.exp(z) * [1, 1, 1, 0]
    p /= p.sum()
    assert loss == pytest.approx(-np.log(p[:2]).sum(), rel=1e-5)
    assert derivatives == pytest.approx(2 * p - label, abs=1e-6)
