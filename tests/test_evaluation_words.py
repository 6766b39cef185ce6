"""Word-vector evaluation gives gensim's numbers, says how they came about, and survives what users
feed it.
"""

import gzip
import itertools
import json
import os
import pickle
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import reference_words
from scipy import stats

import embedx
from embedx.errors import DataError
from embedx.evaluation import analogies, word_sets, words
from embedx.evaluation.word_sets import WordTests
from embedx.labeled.ids import read_label_names
from embedx.labeled.read import read
from embedx.runtime.progress import Silent
from embedx.vectors import export, model
from embedx.vectors.model import WordVectors
from tests.support.commands import run_command
from tests.support.needs import HAS_NO_GENSIM, WHY_NO_GENSIM, needs_data
from tests.support.refusals import refused, refused_data

if HAS_NO_GENSIM:
    pytest.skip(WHY_NO_GENSIM, allow_module_level=True)
import gensim.models as gensim_models
from gensim.test.utils import datapath


def toy(seed=0, dim=8, share=0.9, cased=True):
    """Vectors for most words of the test sets: relations are offsets, some words have more
    spellings, are equal or zero.
    """
    rng = np.random.default_rng(seed)
    *pairs, questions = word_sets.default_tests()
    vectors = {
        word.lower(): rng.normal(size=dim) for test in pairs for item in test.words for word in item
    }
    offsets = {section: rng.normal(size=dim) for section in dict.fromkeys(questions.sections)}
    for section, (a, b, _, _) in zip(questions.sections, questions.words, strict=True):
        vectors.setdefault(a.lower(), rng.normal(size=dim))
        vectors.setdefault(
            b.lower(), vectors[a.lower()] + offsets[section] + 0.3 * rng.normal(size=dim)
        )
    for word in list(vectors) if cased else ():
        if rng.random() < 0.3:
            for variant in (word.upper(), word.capitalize()):
                vectors[variant] = vectors[word] + 0.1 * rng.normal(size=dim)
    vocabulary = [word for word in vectors if rng.random() < share]
    rng.shuffle(vocabulary)
    table = np.array([vectors[word] for word in vocabulary], np.float32)
    table[10:20] = table[20:30]  # ties
    table[40:50] = table[50:60] * np.float32(1 + 3e-7)  # ties but for rounding
    table[100] = 0
    return WordVectors(vocabulary, {"input": table})


def as_gensim(vectors):
    keyed = gensim_models.KeyedVectors(vectors.vectors.shape[1])
    keyed.add_vectors(vectors.words, vectors.vectors)
    return keyed


def some_questions(tmp_path, n=400, seed=0):
    """A file with a sample of Google's questions, and some odd ones."""
    rng = np.random.default_rng(seed)
    test = word_sets.default_tests()[2]
    lines = [
        ": odd",
        "boy boy girl girl",
        "boy girl boy girl",
        "boy girl girl boy",
        "Boy GIRL brother sister",
        ": sample",
    ]
    lines += [" ".join(test.words[i]) for i in rng.choice(len(test), n, replace=False)]
    file = tmp_path / "questions.txt"
    file.write_text("\n".join(lines))
    return file


@pytest.mark.parametrize("name", ["wordsim353.tsv", "simlex999.txt"])
def test_pairs_are_scored_as_gensim_scores_the_file(name):
    vectors = toy()
    _, spearman, oov = as_gensim(vectors).evaluate_word_pairs(datapath(name))
    [answers] = words.score_items(vectors, [word_sets.read_pairs(Path(datapath(name)))])
    used = answers.used
    # vectors may be tied but for rounding
    assert answers.score == pytest.approx(spearman[0], abs=1e-3)
    assert 100 * (1 - used.mean()) == pytest.approx(oov, abs=1e-9)
    assert 0 < used.sum() < len(used)
    assert stats.spearmanr(answers.test.gold[used], answers.values[used])[0] == pytest.approx(
        answers.score, abs=1e-9
    )


@pytest.mark.parametrize("cased", [True, False])
def test_every_packaged_set_has_gensims_score_to_all_digits(tmp_path, cased):
    """From the command and a file of vectors: words in several spellings, a fifth missing."""
    with_ties = toy(seed=4, share=0.8, cased=cased)
    rng = np.random.default_rng(5)
    table = rng.normal(0.3, 1, with_ties.vectors.shape).astype(np.float32)
    export.export(WordVectors(with_ties.words, {"input": table}), "word2vec", tmp_path / "v.vec")
    completed = run_command(tmp_path, "eval", "v.vec", "--protocol", "gensim", "--json")
    scores_of = {score["set"]: score for score in json.loads(completed.stdout)["scores"]}
    assert set(scores_of) == {"WordSim-353", "SimLex-999", "Google analogies", "pooled"}

    keyed = gensim_models.KeyedVectors.load_word2vec_format(str(tmp_path / "v.vec"))
    for name, file in (("WordSim-353", "wordsim353.tsv"), ("SimLex-999", "simlex999.txt")):
        _, spearman, share_unknown = keyed.evaluate_word_pairs(datapath(file))
        score = scores_of[name]
        assert score["score"] == pytest.approx(spearman[0], abs=1e-14)
        assert 100 * score["oov"] / (score["used"] + score["oov"]) == pytest.approx(
            share_unknown, abs=1e-12
        )
        assert score["oov"] > 50
    accuracy, _ = keyed.evaluate_word_analogies(datapath("questions-words.txt"))
    assert scores_of["Google analogies"]["score"] == accuracy
    assert 0 < accuracy < 1


# gensim divides by the norm of the zero vector
@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")
@pytest.mark.parametrize(
    ("cased", "restrict_vocab"), [(True, 40), (False, 700), (True, 700), (True, 30_000)]
)
def test_analogies_are_answered_exactly_as_gensim_does(
    tmp_path, cased, restrict_vocab, monkeypatch
):
    monkeypatch.setattr(analogies, "BLOCK_FLOATS", 20_000)  # several blocks
    monkeypatch.setattr(analogies, "SCORE_FLOATS", 1_000)
    file = some_questions(tmp_path)
    vectors = toy(cased=cased, share=1.0)
    score, sections = as_gensim(vectors).evaluate_word_analogies(
        str(file), restrict_vocab=restrict_vocab
    )
    test = word_sets.read_analogies(file, restrict_vocab=restrict_vocab)
    [answers] = words.score_items(vectors, [test])
    if restrict_vocab == 40:
        assert not answers.used.any()
        return
    assert answers.score == score
    for value, kind in ((1, "correct"), (0, "incorrect")):
        questions = sorted(
            tuple(word.upper() for word in test.words[i])
            for i in np.flatnonzero(answers.values == value)
        )
        assert questions == sorted(sections[-1][kind])
        assert questions
    assert answers.details["sections"] == {
        part["section"]: {
            "correct": len(part["correct"]),
            "used": len(part["correct"] + part["incorrect"]),
        }
        for part in sections[:-1]
    }


def test_3cosmul_is_that_of_the_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(analogies, "BLOCK_FLOATS", 20_000)
    monkeypatch.setattr(analogies, "SCORE_FLOATS", 1_000)
    whole = toy(cased=True, share=0.9)
    vectors = WordVectors(whole.words[200:1500], {"input": whole.vectors[200:1500]})
    [test] = WordTests(analogies=some_questions(tmp_path, 600), method="3cosmul").read()
    [answers] = words.score_items(vectors, [test])
    assert test.name == "questions (3cosmul)"
    checked = np.flatnonzero(answers.used)[:40]
    assert len(checked) == 40
    for item in checked.tolist():
        a, b, c, expected = test.words[item]
        assert answers.values[item] == (
            reference_words.cosmul(vectors.words, vectors.vectors, a, b, c) == expected.upper()
        )


def test_the_protocol_of_gensim_has_its_restrict_vocab(tmp_path):
    for options, n in (
        ({}, 30_000),
        ({"protocol": "gensim"}, 300_000),
        ({"protocol": "gensim", "restrict_vocab": 9}, 9),
    ):
        [test] = WordTests(analogies=some_questions(tmp_path, 5), **options).read()
        assert test.restrict_vocab == n


def test_memory_does_not_grow_with_questions_and_words(monkeypatch):
    monkeypatch.setattr(analogies, "BLOCK_FLOATS", 1 << 16)
    monkeypatch.setattr(analogies, "SCORE_FLOATS", 1 << 14)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20_000, 8)).astype(np.float32)
    rows = rng.integers(100, size=(1_000, 3))
    barred = np.column_stack([np.arange(1_000), rows[:, 0]])
    tracemalloc.start()
    try:
        analogies.best_answers(table, rows, barred, Silent())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000  # all scores would be 80,000,000 bytes


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero)")
def test_variants_of_a_question_word_and_zero_vectors_are_no_answers(tmp_path):
    """As in gensim, which looks at the best five words alone, so that it has no answer where these
    are all variants.
    """
    rng = np.random.default_rng(0)
    file = tmp_path / "questions.txt"
    for spellings, words_asked in (
        (7, "boy girl man woman"),
        (3, "boy girl man woman"),
        (0, "boy girl man woman"),
    ):
        near = ["".join(letters) for letters in itertools.product("gG", "iI", "rR", "l")][
            1 : spellings + 1
        ]
        vocabulary = ["zero", "boy", "girl", "man", "woman", *near, "other"]
        girl = np.array([1.0, 2, 0])
        other = np.array([-3.0, -3, 1])
        table = np.array(
            [[0, 0, 0], [1, 0, 0], girl, [1, 0.1, 0], [1, 0.4, 0.5], *[girl] * len(near), other],
            np.float32,
        )
        table[5:-1] += 0.01 * rng.normal(size=(len(near), 3)).astype(np.float32)
        if not spellings:
            table[4] = [-1, -1, 1]  # even the best answer points away from the query
        file.write_text(": s\n" + f"{words_asked}\n" * 4)
        vectors = WordVectors(vocabulary, {"input": table})
        score, _ = as_gensim(vectors).evaluate_word_analogies(str(file))
        [answers] = words.score_items(vectors, [word_sets.read_analogies(file)])
        assert answers.values[0] == 1
        assert answers.score == 1
        assert score == (spellings < 5)


def test_the_most_frequent_spelling_counts(tmp_path):
    vectors = WordVectors(
        ["Turkey", "bird", "turkey", "goose", "duck"], {"input": np.eye(5, dtype=np.float32)}
    )
    vectors.vectors[0] = vectors.vectors[1]
    file = tmp_path / "pairs.tsv"
    file.write_text("turkey\tbird\t9\nturkey\tgoose\t1\nduck\tgoose\t5\n")
    [answers] = words.score_items(vectors, [word_sets.read_pairs(file)])
    np.testing.assert_allclose(answers.values, [1, 0, 0])


def test_a_report_reports_the_protocol(tmp_path):
    path = toy(share=0.6).save(tmp_path / "a.embedx")
    report = words.evaluate([path], (), WordTests(seed=3))
    assert [score.test for score in report.scores] == [
        "WordSim-353",
        "SimLex-999",
        "Google analogies",
        "pooled",
    ]
    as_dict = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    for score_of_test in as_dict["scores"]:
        assert score_of_test["used"] + score_of_test["oov"] == score_of_test["total"]
        assert (
            score_of_test["interval"][0] <= score_of_test["score"] <= score_of_test["interval"][1]
        )
    assert [score["restrict_vocab"] for score in as_dict["scores"]] == [
        300_000,
        300_000,
        30_000,
        300_000,
    ]
    assert [score["total"] for score in as_dict["scores"]] == [353, 999, 19_544, 1352]
    assert as_dict["protocol"]["seed"] == 3
    wordsim, simlex, _, together = report.scores
    assert together.used == wordsim.used + simlex.used
    assert together.score == pytest.approx(
        (wordsim.used * wordsim.score + simlex.used * simlex.score) / together.used
    )
    assert as_dict["scores"][3]["sets"] == ["WordSim-353", "SimLex-999"]
    heading, *rows = report.table().splitlines()
    assert heading.split("  ")[0] == "set"
    for row, score in zip(rows, report.scores, strict=True):
        assert row.startswith(score.test)
        assert f"{score.used:,}/{score.total:,}" in row


def test_a_vocabulary_that_lacks_most_words_is_pointed_out(tmp_path):
    path = export.export(toy(share=0.4), "word2vec", tmp_path / "few")
    [warning] = words.evaluate([path], (), WordTests([Path(datapath("wordsim353.tsv"))])).warnings
    assert "the score on wordsim353 rests on" in warning


def test_pairs_of_equal_scores_have_no_correlation_and_it_is_said(tmp_path):
    (tmp_path / "v").write_text("3 2\na 1 2\nb 3 4\nc 4 1\n")
    (tmp_path / "pairs").write_text("a b 3\nb c 3\na c 3\n")
    [warning] = words.evaluate([tmp_path / "v"], (), WordTests([tmp_path / "pairs"])).warnings
    assert "no score on pairs, because" in warning


def test_a_test_set_without_known_words_is_reported(tmp_path):
    (tmp_path / "v").write_text("2 2\nfoo 1 2\nbar 3 4\n")
    report = words.evaluate([tmp_path / "v"], [tmp_path / "v"])
    assert [score["score"] for score in report.as_dict()["scores"]] == [None] * 8
    assert report.as_dict()["differences"][0]["difference"] is None
    assert (
        "nothing to score on Google analogies, its vocabulary covers 0 of 19,544 items"
        in report.warnings[-1]
    )
    assert " - " in report.table()


def test_test_sets_that_cannot_be_opened_are_named(tmp_path):
    with refused_data("nowhere"):
        word_sets.read_pairs(tmp_path / "nowhere")
    with refused_data("a" * 300):
        word_sets.read_pairs(tmp_path / ("a" * 300))
    with refused_data("a" * 300):
        words.evaluate([tmp_path / ("a" * 300)], trust_pickle=True)
    (tmp_path / "latin1").write_bytes(b"caf\xe9\tb\t1\n")
    with refused_data("latin1:1"):
        word_sets.read_pairs(tmp_path / "latin1")
    with refused("protocol", value="hyperwords", quoting="embedx, gensim"):
        words.evaluate([tmp_path / "nowhere"], (), WordTests(protocol="hyperwords"))
    with refused("method", value="cosmul", quoting=("3cosmul?", "3cosadd, 3cosmul")):
        words.evaluate([tmp_path / "nowhere"], (), WordTests(method="cosmul"))


class Payload:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("was-here",)


DOORS = {
    "eval": lambda path: words.evaluate([path]),
    "eval --trust-pickle": lambda path: words.evaluate(
        [path], trust_pickle=path.suffix != ".model"
    ),
    "nn, analogy, export": model.load,
    "classify, predict": lambda path: read(str(path)),
    "labels": lambda path: read("x.txt", str(path)),
    "--label-names": lambda path: read_label_names(str(path)),
    "--pairs": word_sets.read_pairs,
    "--analogies": word_sets.read_analogies,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
def test_pickled_vectors_are_not_opened(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("1 2 0\n 0:1\n")
    Path("vectors.model").write_bytes(pickle.dumps(Payload()))
    Path("vectors.gz").write_bytes(gzip.compress(pickle.dumps(Payload())))
    np.save("vectors.npy", np.array([Payload()]), allow_pickle=True)
    np.savez("vectors.npz", data=np.array([Payload()]), format=np.array(Payload(), object))
    for name in ("vectors.model", "vectors.gz", "vectors.npy", "vectors.npz"):
        with pytest.raises(DataError) as raised:
            door(Path(name))
        assert str(raised.value.file) == name
    assert not Path("was-here").exists()
    pickle.loads(Path("vectors.model").read_bytes())
    assert Path("was-here").exists()


def test_without_gensim_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    with refused(None, "pairs", "analogies", kind=DataError, file="the default test sets"):
        word_sets.default_tests()


@needs_data
def test_public_sets_are_read_whole():
    folder = Path(os.environ["EMBEDX_DATA"]) / "wordsim"
    sizes = {file.name: len(word_sets.read_pairs(file)) for file in sorted(folder.glob("EN-*.txt"))}
    assert sizes["EN-WS-353-ALL.txt"] == 353
    assert sizes["EN-MTurk-287.txt"] == 287
    assert sizes["EN-RG-65.txt"] == 65
    assert len(word_sets.read_analogies(folder / "questions-words.txt")) == 19_544
    assert len(word_sets.read_analogies(folder / "questions-phrases.txt")) == 3_218


def test_few_questions_are_no_unknown_words(tmp_path):
    words = ["london", "england", "paris", "france"]
    model = WordVectors(words, {"input": np.eye(4, dtype=np.float32)})
    file = tmp_path / "few.txt"
    file.write_text("London England Paris France\nParis France London England\n")
    (score,) = embedx.evaluate(model, analogies=file).scores
    assert (score.used, score.total, score.oov) == (2, 2, 0)
    assert np.isnan(score.score)
