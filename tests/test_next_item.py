"""The next item of a session: ranks against loops; `recommend` in Python and as a command."""

import itertools
import json
import pickle

import numpy as np
import pytest

import embedx
from embedx.comparison.settings import CompareSettings
from embedx.comparison.text import TextData
from embedx.evaluation import graphs as evaluate
from embedx.runtime.progress import Silent
from embedx.vectors import next_item
from embedx.vectors.model import WordVectors
from embedx.vectors.names import names_of
from tests.support.commands import run_command
from tests.support.notes import Notes
from tests.support.refusals import refused_data


def test_ranks_of_the_next_item_equal_those_of_loops(tmp_path):
    rng = np.random.default_rng(0)
    train = tmp_path / "train.txt"
    test = tmp_path / "test.txt"
    sessions = [[f"i{(k + d) % 9}" for d in range(4)] for k in rng.integers(0, 9, 300)]
    train.write_text("".join(" ".join(session) + "\n" for session in sessions))
    test.write_text("i1 i2 i3\ni4 i5\ni2 unknown\n")
    model = (
        embedx.SkipGram(dim=8, window=2, epochs=20, sample=0, threads=1, cache_dir=tmp_path)
        .fit(str(train))
        .model
    )
    progress = Notes()
    rows = {row["ranking"]: row for row in evaluate.next_item(model, str(test), progress)}
    assert len(progress.notes) == 1
    assert rows["vectors"]["sessions"] == 2

    def ranks_of(z):
        ranks = []
        for scores, item in zip(z, ("i3", "i5"), strict=True):
            score = scores[model.index(item)]
            n_tied = (scores == score).sum() - 1
            ranks.append(1 + (scores > score).sum() + n_tied / 2)
        return ranks

    ranks = ranks_of(
        np.stack([model["i2"] + next_item.DECAY * model["i1"], model["i4"]])
        @ model.output_vectors.T
    )
    reciprocal_ranks = evaluate.next_item_measures(
        model, *evaluate.read_sessions(model.words, str(test), progress)
    )["MRR"]
    assert reciprocal_ranks == pytest.approx([1 / rank for rank in ranks])
    assert rows["vectors"]["MRR"] == pytest.approx(np.mean(reciprocal_ranks))
    near = np.zeros((9, 9))
    for session in sessions:
        ids = [model.index(word) for word in session]
        for a, b in [*itertools.pairwise(ids), *zip(ids, ids[2:], strict=False)]:
            near[[a, b], [b, a]] += 1
    ranks = ranks_of([near[model.index("i2")], near[model.index("i4")]])
    assert rows["co-occurrence"]["MRR"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    model.save(tmp_path / "model")
    # the first session tunes, the second is scored
    for tune, scored in ((None, reciprocal_ranks), (0.5, reciprocal_ranks[1:])):
        data = TextData(
            [str(train)], {}, CompareSettings(tune=tune), next_item=str(test), cache_dir=tmp_path
        )
        assert data.prepare(Silent())["sessions"] == 2
        assert data.scores(tmp_path / "model")[0]["mrr"].value == pytest.approx(scored.mean())
        assert data.validation_score(tmp_path / "model", {}) == pytest.approx(reciprocal_ranks[0])
    tree = (
        embedx.SkipGram("hs", dim=8, window=2, epochs=20, sample=0, threads=1, cache_dir=tmp_path)
        .fit(str(train))
        .model
    )
    assert evaluate.next_item(tree, str(test), progress)[0]["MRR"] > 0.4  # 0.31 by chance


@pytest.mark.parametrize("objective", ["ns", "hs"])
def test_recommendations_use_the_scores_of_eval(tmp_path, objective):
    train = tmp_path / "train.txt"
    rng = np.random.default_rng(0)
    sessions = [[f"i{(k + d) % 9}" for d in range(4)] for k in rng.integers(0, 9, 300)]
    train.write_text("".join(" ".join(session) + "\n" for session in sessions))
    model = (
        embedx.SkipGram(objective, dim=8, window=2, epochs=20, sample=0, threads=1)
        .fit(str(train))
        .model
    )
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


def test_histories_are_answered_on_the_command_line(tmp_path):
    words = ["bread", "butter", "jam", "tea"]
    arrays = {name: np.eye(4, dtype=np.float32) for name in ("input", "output")}
    arrays["output"] = np.roll(arrays["output"], 1, axis=0)  # each is followed by the next
    model = WordVectors(words, arrays, counts=np.array([4, 3, 2, 1]), facts={"objective": "ns"})
    model.save(tmp_path / "items")

    completed = run_command(tmp_path, "recommend", "items", "tea", "bread", "--top-k", 1)
    assert completed.stdout == "butter\t0.6667\n"

    completed = run_command(tmp_path, "recommend", "items", "jam", "rye", "--top-k", 1, "--json")
    expected = [{"item": "tea", "score": 1.0}]
    assert json.loads(completed.stdout) == {"history": ["jam", "rye"], "recommended": expected}
    (warning,) = completed.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert warning.endswith(": rye")

    (tmp_path / "names.tsv").write_text("butter\tSalted Butter 250 g\n")
    completed = run_command(
        tmp_path, "recommend", "items", "tea", "bread", "--top-k", 2, "--names", "names.tsv"
    )
    assert completed.stdout.splitlines()[0] == "butter\tSalted Butter 250 g\t0.6667"
    assert completed.stdout.splitlines()[1].startswith("jam\t\t")
    with refused_data("name.tsv", quoting=("no such file", "names.tsv")):
        names_of(model, str(tmp_path / "name.tsv"))

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

    words = ["recommend", "items", "tea", "--histories", "histories.txt"]
    completed = run_command(tmp_path, *words, check=False)
    assert completed.returncode == 2
    assert completed.stderr.startswith("embedx: --histories ")


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
