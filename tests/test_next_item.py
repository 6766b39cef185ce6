"""The next item of a session: ranks against loops; `recommend` in Python and as a command."""

import dataclasses
import itertools
import json
import pickle

import numpy as np
import pytest

import embedx
from embedx.comparison.settings import CompareSettings
from embedx.comparison.text import TextData
from embedx.evaluation import sessions as evaluate
from embedx.runtime.progress import Silent
from embedx.vectors import next_item
from embedx.vectors.model import WordVectors
from embedx.vectors.model_folder import MAX_SOURCES
from embedx.vectors.names import names_of
from tests.support.commands import run_command
from tests.support.notes import Notes
from tests.support.refusals import refused_data

# The rankings of `next_item`, and the number of notes about them.
WITH_BASELINE = (["vectors", "popularity", "co-occurrence"], 0)
WITHOUT_BASELINE = (["vectors", "popularity"], 1)


@pytest.fixture(scope="module")
def sessions():
    """300 sessions of four of nine items, each item followed by the next."""
    starts = np.random.default_rng(0).integers(0, 9, 300)
    return [[f"i{(start + step) % 9}" for step in range(4)] for start in starts]


@pytest.fixture(scope="module")
def train_file(sessions, tmp_path_factory):
    path = tmp_path_factory.mktemp("sessions") / "train.txt"
    path.write_text("".join(" ".join(session) + "\n" for session in sessions))
    return path


@pytest.fixture
def scored_file(tmp_path):
    path = tmp_path / "test.txt"
    path.write_text("i1 i2 i3\ni4 i5\ni2 unknown\n")
    return str(path)


@pytest.fixture(scope="module")
def models(train_file):
    """Models of the sessions by objective."""
    settings = {"dim": 8, "window": 2, "epochs": 20, "sample": 0, "threads": 1}
    return {
        name: embedx.SkipGram(name, **settings, cache_dir=train_file.parent)
        .fit(str(train_file))
        .model
        for name in ("ns", "hs")
    }


def ranks_of_last_items(model, scores):
    """The ranks of i3 and i5 among the scores of all items for the histories before them."""
    ranks = []
    for scores_of_items, item in zip(scores, ("i3", "i5"), strict=True):
        score = scores_of_items[model.index(item)]
        n_tied = (scores_of_items == score).sum() - 1
        ranks.append(1 + (scores_of_items > score).sum() + n_tied / 2)
    return np.array(ranks)


def test_ranks_of_the_next_item_equal_those_of_loops(models, scored_file):
    model = models["ns"]
    progress = Notes()
    rows = {row["ranking"]: row for row in evaluate.next_item(model, scored_file, progress)}
    assert len(progress.notes) == 1
    assert rows["vectors"]["sessions"] == 2
    h = np.stack([model["i2"] + next_item.DECAY * model["i1"], model["i4"]])
    ranks = ranks_of_last_items(model, h @ model.output_vectors.T)
    sessions = evaluate.read_sessions(model.words, scored_file, progress)
    reciprocal_ranks = evaluate.next_item_measures(model, *sessions)["MRR"]
    assert reciprocal_ranks == pytest.approx(1 / ranks)
    assert rows["vectors"]["MRR"] == pytest.approx(np.mean(1 / ranks))


def test_the_baseline_ranks_by_the_co_occurrences_of_the_last_item(models, sessions, scored_file):
    model = models["ns"]
    counts = np.zeros((9, 9))
    for session in sessions:
        ids = [model.index(item) for item in session]
        for a, b in [*itertools.pairwise(ids), *zip(ids, ids[2:], strict=False)]:
            counts[[a, b], [b, a]] += 1
    ranks = ranks_of_last_items(model, [counts[model.index("i2")], counts[model.index("i4")]])
    rows = {row["ranking"]: row for row in evaluate.next_item(model, scored_file, Silent())}
    assert rows["co-occurrence"]["MRR"] == pytest.approx(np.mean(1 / ranks))


@pytest.mark.parametrize("name", ["table.csv", "lines.jsonl", "sessions.zip"])
def test_the_baseline_needs_training_files_of_a_session_per_line(
    models, scored_file, tmp_path, name
):
    (tmp_path / name).write_text("items\ni1 i2\n")
    facts = {**models["ns"].facts, "sources": [str(tmp_path / name)]}
    assert rankings(dataclasses.replace(models["ns"], facts=facts), scored_file) == WITHOUT_BASELINE


def test_the_baseline_needs_all_training_files(models, train_file, scored_file):
    for n_files, expected in ((MAX_SOURCES - 1, WITH_BASELINE), (MAX_SOURCES, WITHOUT_BASELINE)):
        facts = {**models["ns"].facts, "sources": [str(train_file)] * n_files}
        assert rankings(dataclasses.replace(models["ns"], facts=facts), scored_file) == expected


def rankings(model, scored_file):
    """The rankings that next items are scored by, and the number of notes."""
    progress = Notes()
    rows = evaluate.next_item(model, scored_file, progress)
    return [row["ranking"] for row in rows], sum(
        "co-occurrence baseline" in n for n in progress.notes
    )


def test_vectors_of_a_file_rank_no_items(scored_file):
    """Neither counts nor output vectors are known."""
    vectors = WordVectors([f"i{k}" for k in range(6)], {"input": np.eye(6, dtype=np.float32)})
    with refused_data(repr(vectors)):
        evaluate.next_item(vectors, scored_file, Silent())


def test_items_are_ranked_by_a_tree_too(models, scored_file):
    by_vectors = evaluate.next_item(models["hs"], scored_file, Silent())[0]
    assert by_vectors["MRR"] > 0.4  # 0.31 by chance


def test_compare_tunes_on_some_sessions_and_scores_the_others(
    models, train_file, scored_file, tmp_path
):
    model = models["ns"]
    model.save(tmp_path / "model")
    sessions = evaluate.read_sessions(model.words, scored_file, Silent())
    reciprocal_ranks = evaluate.next_item_measures(model, *sessions)["MRR"]
    for tune, scored in ((None, reciprocal_ranks), (0.5, reciprocal_ranks[1:])):
        settings = CompareSettings(tune=tune)
        data = TextData(
            [str(train_file)], {}, settings, next_item=scored_file, cache_dir=train_file.parent
        )
        assert data.prepare(Silent())["sessions"] == 2
        assert data.scores(tmp_path / "model")[0]["mrr"].value == pytest.approx(scored.mean())
        assert data.validation_score(tmp_path / "model", {}) == pytest.approx(reciprocal_ranks[0])


@pytest.mark.parametrize("objective", ["ns", "hs"])
def test_recommendations_use_the_scores_of_eval(models, objective):
    model = models[objective]
    history = ["i1", "i1", "new", "i2"]
    recommended = model.recommend(history, top_k=3)
    h = (model["i2"] + 0.75 * next_item.DECAY * model["i1"] * 2) / (1 + 0.75)
    scores = next_item.next_item_scores(model)(h[None])[0]
    by_score = [model.words[row] for row in np.argsort(-scores)]
    expected = [item for item in by_score if item not in history][:3]
    assert [item for item, _ in recommended] == expected
    assert [score for _, score in recommended] == pytest.approx(
        [scores[model.index(item)] for item in expected], rel=1e-4
    )
    assert {"i0", "i3"} <= {item for item, _ in recommended}
    assert len(model.recommend(["i1"], top_k=100)) == 8
    copied = pickle.loads(pickle.dumps(model))
    assert [item for item, _ in copied.recommend(history, top_k=3)] == expected
    for items in (["new"], [], "i1"):
        with refused_data("items"):
            model.recommend(items)


@pytest.fixture
def items(tmp_path):
    """A model in the folder `items`, each of whose four items is followed by the next."""
    words = ["bread", "butter", "jam", "tea"]
    arrays = {name: np.eye(4, dtype=np.float32) for name in ("input", "output")}
    arrays["output"] = np.roll(arrays["output"], 1, axis=0)
    model = WordVectors(words, arrays, counts=np.array([4, 3, 2, 1]), facts={"objective": "ns"})
    model.save(tmp_path / "items")
    return model


def test_a_history_is_answered_on_the_command_line(tmp_path, items):
    completed = run_command(tmp_path, "recommend", "items", "tea", "bread", "--top-k", 1)
    assert completed.stdout == "butter\t0.6667\n"

    completed = run_command(tmp_path, "recommend", "items", "jam", "rye", "--top-k", 1, "--json")
    expected = [{"item": "tea", "score": 1.0}]
    assert json.loads(completed.stdout) == {"history": ["jam", "rye"], "recommended": expected}
    (warning,) = completed.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert warning.endswith(": rye")


def test_items_are_called_by_the_names_of_a_file(tmp_path, items):
    (tmp_path / "names.tsv").write_text("butter\tSalted Butter 250 g\n")
    completed = run_command(
        tmp_path, "recommend", "items", "tea", "bread", "--top-k", 2, "--names", "names.tsv"
    )
    assert completed.stdout.splitlines()[0] == "butter\tSalted Butter 250 g\t0.6667"
    assert completed.stdout.splitlines()[1].startswith("jam\t\t")
    for text in ("butter,Butter\njam,Jam; red\n", "butter;Butter\njam;Jam, red\n"):
        (tmp_path / "names.csv").write_text(text)
        assert names_of(items, str(tmp_path / "names.csv"))["butter"] == "Butter"
    with refused_data("name.tsv", quoting=("no such file", "names.tsv")):
        names_of(items, str(tmp_path / "name.tsv"))


def test_names_may_begin_with_a_quote_or_lines_end_with_cr_alone(tmp_path, items):
    file = tmp_path / "names.tsv"
    file.write_text('"jam"\t5" jam\n"tea\tGreen\nbutter\tButter\n' + "x\tof the range\n" * 20_000)
    assert names_of(items, str(file))["butter"] == "Butter"
    file.write_text("butter,Butter\rjam,Jam\r")
    with refused_data("names.tsv:1"):
        names_of(items, str(file))


def test_histories_of_a_file_or_of_standard_input_are_answered(tmp_path, items):
    lines = "tea\tbread\n\nrye\njam\trye\n"
    (tmp_path / "histories.txt").write_text(lines)
    answers = "tea bread\tbutter\t0.6667\njam rye\ttea\t1.0000\n"
    from_file = run_command(
        tmp_path, "recommend", "items", "--histories", "histories.txt", "--top-k", 1
    )
    from_input = run_command(tmp_path, "recommend", "items", "-", "--top-k", 1, input=lines)
    assert from_file.stdout == from_input.stdout == answers
    of_line, of_others = from_file.stderr.splitlines()
    assert of_line.startswith("warning: line 3: ")
    assert of_line.endswith(": rye")
    assert of_others.startswith("warning: ")
    assert of_others.endswith(": 1")

    words = ["recommend", "items", "tea", "--histories", "histories.txt"]
    completed = run_command(tmp_path, *words, check=False)
    assert completed.returncode == 2
    assert completed.stderr.startswith("embedx: --histories ")


def test_each_line_of_standard_input_is_answered_and_unknown_items_are_summed_up(tmp_path, items):
    # A program that waits for an answer to each line gets one.
    completed = run_command(
        tmp_path, "recommend", "items", "-", "--json", "--top-k", 1, input="tea\n\nrye\n"
    )
    assert [json.loads(line)["history"] for line in completed.stdout.splitlines()] == [
        ["tea"],
        [],
        ["rye"],
    ]

    completed = run_command(tmp_path, "recommend", "items", "-", input="rye\n" * 1200)
    *warnings, total = completed.stderr.splitlines()
    assert len(warnings) == 5
    assert total.startswith("warning: ")
    assert total.endswith(": 1,200")


def test_an_item_of_several_words_is_one_item(tmp_path):
    words = ["Desk_Lamp_Basic", "Chair", "Paper_A4"]
    arrays = {"input": np.eye(3, dtype=np.float32)}
    arrays["output"] = np.roll(arrays["input"], 1, axis=0)
    model = WordVectors(words, arrays, counts=np.array([3, 2, 1]), facts={"objective": "ns"})
    assert "Desk Lamp Basic" in model
    assert model.recommend(["Desk Lamp Basic"], top_k=1) == [("Chair", 1.0)]
    with refused_data("items", quoting='"Desk Lamp Basic"'):
        model.recommend(["Desk", "Lamp", "Basic"])
    with refused_data("items", quoting="did you mean Desk_Lamp_Basic?"):
        model.recommend(["desk lamp basic"])
    model.save(tmp_path / "items")
    lines = "Desk Lamp Basic\nDesk Lamp Basic\tChair\n"
    completed = run_command(tmp_path, "recommend", "items", "-", "--top-k", 1, input=lines)
    assert completed.stdout == (
        "Desk Lamp Basic\tChair\t1.0000\nDesk Lamp Basic Chair\tPaper_A4\t0.6667\n"
    )
    completed = run_command(tmp_path, "nn", "items", "-", "--top-k", 1, input="Paper A4\n")
    assert completed.stdout == "Paper A4\tDesk_Lamp_Basic\t0.0000\n"
