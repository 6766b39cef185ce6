"""eval papers-ldgs: the data are what they claim, legs go through them fairly, and tables say what the records do."""

from types import SimpleNamespace

import numpy as np
import pytest
from eval_setup import Records, Run, environment, found, made_up, rows_of

from embedx.labeled.data import Labeled, Labels
from embedx.text.heldout import PIECE
from embedx.text.tokenizer import END_OF_SENTENCE
from eval import papers_ldgs, papers_ldgs_data, papers_ldgs_words


@pytest.fixture
def script():
    """The experiment's modules."""
    return SimpleNamespace(measure=papers_ldgs, data=papers_ldgs_data, words=papers_ldgs_words)


# ---- data


@pytest.fixture
def pieces(script, tmp_path, monkeypatch):
    """The next words of a text whose pieces of PIECE tokens have words of their own; number 0 of a vector names the piece."""
    rng = np.random.default_rng(0)
    text = [f"w{i:05d}" for piece in range(60) for i in 20 * piece + rng.integers(20, size=PIECE)]
    file = tmp_path / "text"
    file.write_text(" ".join(text))
    number = {}

    def vectors(corpus, *_):
        names = script.data.select(script.data.encode(corpus, script.data.TextSettings(), script.data.Silent(), None), MORE)[0]
        number.update(enumerate(names.words))
        found = rng.normal(0, 1, (len(names), 3))
        found[:, 0] = [int(word[1:]) // 20 for word in names.words]
        return found.astype(np.float32)

    MORE = script.data.VocabularySettings()
    monkeypatch.setattr(script.data, "word_vectors", vectors)
    found = script.data.next_word(str(file), 5000, 1000, 0.2, quick=True)
    pieces_of = [np.array([int(number[label][1:]) // 20 for label in half.labels.ids]) for half in (found.training, found.test)]
    return SimpleNamespace(data=found, of=pieces_of)


def test_test_positions_lie_in_pieces_that_training_never_sees(pieces):
    training, test = (set(of) for of in pieces.of)
    assert len(training) > 30
    assert len(test) > 3
    assert not training & test
    assert (len(pieces.data.training), len(pieces.data.test)) == (5000, 1000)


def test_a_context_comes_from_the_piece_of_its_word(pieces):
    for half, of in zip((pieces.data.training, pieces.data.test), pieces.of, strict=True):
        name, slope = half.features[:, 0], np.polyfit(of, half.features[:, 0], 1)
        np.testing.assert_allclose(name, np.polyval(slope, of), atol=1e-4)


def test_features_are_standardised_by_the_training_rows(script, pieces):
    training = pieces.data.training.features
    np.testing.assert_allclose(training.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(training.std(0), script.data.DIM**-0.5, rtol=1e-4)


def test_contexts_are_the_kept_neighbours_within_a_sentence(script):
    end = END_OF_SENTENCE
    tokens = np.array([0, 1, 2, end, 3, 4, 5, 6, 7])
    remap = np.array([0, 1, 2, 3, -1, 5, 6, 7], dtype=np.int32)  # 4 is no word
    chance = np.array([1, 1, 1, 1, 1, 1, 0, 1.0])  # 6 is never kept
    words = script.data.kept_words(tokens, remap, chance, np.zeros(1, dtype=np.uint8), np.random.default_rng(0))
    assert words.ids.tolist() == [0, 1, 2, 3, 5, 7]
    found = script.data.contexts(words, np.array([0, 1, 3, 5]), 2)
    assert found.tolist() == [[-1, -1, 1, 2], [-1, 0, 2, -1], [-1, -1, 5, 7], [3, 5, -1, -1]]
    assert script.data.has_context(words).all()
    alone = script.data.Words(np.arange(3), np.array([0, 1, 1]), np.arange(3), np.zeros(3, dtype=bool))
    assert script.data.has_context(alone).tolist() == [False, True, True]


def test_windows_end_where_a_piece_does(script):
    tokens = np.zeros(PIECE + 2, dtype=np.int64)
    held_out = np.array([0, 1], dtype=np.uint8)
    words = script.data.kept_words(tokens, np.zeros(1, dtype=np.int32), np.ones(1), held_out, np.random.default_rng(0))
    assert script.data.contexts(words, np.array([PIECE - 1, PIECE]), 1).tolist() == [[0, -1], [-1, 0]]
    assert words.is_held_out.tolist() == [False] * PIECE + [True] * 2


def accuracy(rows, data):
    return float(((data.features @ rows.T).argmax(axis=1) == data.labels.ids).mean())


def test_faces_are_of_their_identities_and_each_has_one_for_test(script):
    found = script.data.faces(400)
    np.testing.assert_allclose(np.linalg.norm(found.training.features, axis=1), 1, rtol=1e-5)
    assert found.test.labels.ids.tolist() == list(range(400))
    assert np.bincount(found.training.labels.ids).min() >= 2
    assert 5 < len(found.training) / 400 < 7
    means = np.zeros((400, script.data.FACE_DIM))
    np.add.at(means, found.training.labels.ids, found.training.features)
    assert 0.6 < accuracy(script.data.unit(means), found.test) < 0.99


def test_the_rows_to_start_from_know_faces_and_documents(script):
    found = script.data.some_faces(1000, 300)
    assert accuracy(found.start["output"], found.training) > 0.7
    found = script.data.documents(300, 2000, 1000, n_test=50)
    best = ((found.training.features @ found.start["hidden"]) @ found.start["output"].T).argmax(axis=1)
    assert np.mean([best[i] in found.training.labels[i] for i in range(300)]) > 0.5
    assert len(found.test) == 50
    assert len(np.unique(found.training.labels.ids)) > 300
    np.testing.assert_allclose(found.training.features.power(2).sum(axis=1), 1, rtol=1e-5)
    assert all(len(set(found.training.labels[i])) == len(found.training.labels[i]) for i in range(300))


# ---- training and measuring


def test_every_epoch_goes_once_through_all_rows(script):
    found = list(script.measure.legs(99, (0.001, 0.05, 0.5, 1.5, 2), 1))
    assert [end for end, _ in found] == [0.05, 0.5, 1.0, 1.5, 2.0]  # in 0.001 there is no row
    first, second = (np.concatenate([rows for _, rows in part]) for part in (found[:3], found[3:]))
    assert sorted(first) == sorted(second) == list(range(99))
    assert first.tolist() != second.tolist()


class Fixed:
    """A classifier of given scores, the features being the numbers of its rows."""

    def __init__(self, z):
        self.z = np.array(z, dtype=np.float32)

    def scores(self, features):
        return self.z[features[:, 0]]


def test_ranks_and_precisions(script):
    z = [[9, 1, 2, 3, 4, 5, 6], [9, 1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0, 0]]
    labels = Labels.single(np.array([0, 2, 1]))
    found = script.measure.accuracy_of(Fixed(z), Labeled(np.arange(3)[:, None], labels, 7), False)
    assert found == pytest.approx({"accuracy": 1 / 3, "top-5": 1 / 3, "reciprocal rank": (1 + 1 / 6 + 1 / 7) / 3})
    labels = Labels.of_rows([[0, 6], [5], [1]])
    found = script.measure.accuracy_of(Fixed(z), Labeled(np.arange(3)[:, None], labels, 7), True)
    assert found["p@1"] == pytest.approx(1 / 3)  # row 0
    assert found["p@3"] == pytest.approx((2 + 1 + 1) / 9)


def test_a_curve_goes_on_from_leg_to_leg_and_ends_in_time(script, monkeypatch):
    data = script.data.faces(30)
    options = {"learning_rate": 1.0, "optimizer": "adagrad", "schedule": "constant", "batch_size": 10, "threads": 1}
    contender = script.measure.Contender("softmax", later={"l2": 1e-6})
    called = []
    fit = script.measure.fit

    def noted(rows, objective, options, start=None):
        if len(rows) > 20:  # not to warm up
            called.append((options, start))
        return fit(rows, objective, options, start=start)

    monkeypatch.setattr(script.measure, "fit", noted)
    points, trained = script.measure.curve(
        data.training, contender, options, (0.5, 1, 2), 100.0, lambda c: script.measure.accuracy_of(c, data.test, False)
    )
    n = len(data.training)
    assert [point["examples"] for point in points] == [round(n / 2), n, 2 * n]
    assert [start is None for _, start in called] == [True, False, False]
    assert ["l2" in options for options, _ in called] == [False, True, True]
    assert len({options["seed"] for options, _ in called}) == 3
    assert trained is not None
    assert points[-1]["accuracy"] > 0.5
    assert points[0]["seconds"] < points[1]["seconds"] < points[2]["seconds"]
    short, _ = script.measure.curve(data.training, contender, options, (0.5, 1, 2), 0.0, lambda c: {})
    assert len(short) == 1


def test_a_section_from_its_rates_to_its_table(script, tmp_path):
    run = Run(found("papers-ldgs"), ["faces", "sampled-softmax"], quick=True)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    (curve,) = run.records.find(what="curve")
    assert curve["result"]["options"]["negatives"] == 3  # a hundredth of 300
    assert curve["result"]["test_rows"] == 300
    assert curve["result"]["final"]["accuracy"] > 0.05  # guessing has 0.003
    rates = script.measure.achieved(run.records, {"section": "faces", "contender": "sampled-softmax"})
    assert len(rates) > 2
    assert curve["result"]["options"]["learning_rate"] == script.measure.best_rate(rates)
    row = rows_of(script.measure.curve_table("faces", run.records))["sampled-softmax"]
    assert (row["optimizer"], row["batch"]) == ("adagrad", "10")
    assert script.measure.curve_table("next-word", run.records) == "Not measured."
    n = len(run.records.by_job)
    run.measure(resume=True)
    assert len((tmp_path / "raw").read_text().splitlines()) == n + 1


def test_rates_are_tried_beyond_where_the_best_one_is_at_an_end(script, tmp_path, monkeypatch):
    tried = []

    def fake(run, job):
        if job["what"] == "rate":
            tried.append(job["rate"])
            return {"measure": -abs(job["rate"] - 0.9), "points": [], "options": {}}
        return {}

    experiment = found("papers-ldgs")
    run = Run(experiment, ["faces", "ldgs"], quick=False)
    run.experiment = SimpleNamespace(choices=experiment.choices, jobs=experiment.jobs, measure=fake)
    run.records = Records(tmp_path / "raw", environment(), mixed=True)
    run.measure(resume=False)
    assert tried == [0.03, 0.1, 0.3, 0.9, 3.0]


# ---- the page


@pytest.fixture
def records(tmp_path):
    """Made-up records, from (job, result)."""
    return lambda *pairs: made_up(tmp_path / "made-up.jsonl", pairs, mixed=True)


def test_tables_and_pictures_from_some_of_the_records(script, records):
    key = {"section": "speed", "what": "faces", "contender": "ldgs", "labels": 200_000, "threads": 2, "batch": 10, "turn": 0}
    points = [
        {"epochs": epoch, "examples": 100 * epoch, "seconds": 2.0 * epoch, "whole": 3.0 * epoch, "accuracy": accuracy}
        for epoch, accuracy in ((0.5, 0.4), (1, 0.76), (3, 0.8))
    ]
    found = {"points": points, "options": {"batch_size": 10, "learning_rate": 0.3}, "final": {"accuracy": 0.8}}
    curve = {"section": "faces", "what": "curve", "contender": "ldgs", "optimizer": "adagrad"}
    made = records((curve, found | {"curve_rows": 100, "test_rows": 10_000}), (key, {"seconds": 0.001, "once": 0.5}))
    plots = script.measure.EXPERIMENT.plots
    assert rows_of(script.measure.speed_table(made))["faces"]["over `ldgs`"] == "1.00"
    assert {name for name, draw in plots.items() if draw(made) is not None} == {"-faces"}
    assert "not measured" in script.measure.targets(records())


# ---- words


def test_the_text_is_split_at_a_word(script, tmp_path):
    text = tmp_path / "text"
    text.write_text(" ".join(f"word{i}" for i in range(2000)))
    training, rest = script.words.split(str(text), tmp_path)
    assert training.read_text() + rest.read_text() == text.read_text()
    assert 0.08 < rest.stat().st_size / text.stat().st_size < 0.12
    assert rest.read_text().startswith(" word")


def test_words_are_measured_as_they_are_trained(script, tmp_path):
    text = tmp_path / "text"
    rng = np.random.default_rng(0)
    topics = [[f"t{t}w{i}" for i in range(8)] for t in range(4)]
    text.write_text(" ".join(" ".join(rng.choice(topics[t % 4], 12)) for t in range(800)))
    training, rest = script.words.split(str(text), tmp_path)
    exact = script.words.measure_collapsed("softmax", training, rest, 50, {"time_budget": 0.5})
    assert [point["iteration"] for point in exact["points"]] == list(range(len(exact["points"])))
    assert exact["points"][-1]["log_likelihood"] > exact["points"][0]["log_likelihood"]
    assert exact["points"][-1]["macs"] > 0
