"""Test sets in every layout, and the comparison of several runs a side."""

import dataclasses
import json

import numpy as np
import pytest

from embedx.errors import DataError
from embedx.evaluation import word_report, word_sets, words
from embedx.evaluation.word_sets import WordTests
from embedx.vectors import model
from embedx.vectors.model import WordVectors
from tests.support.commands import run_command
from tests.support.needs import HAS_NO_GENSIM, WHY_NO_GENSIM
from tests.support.refusals import refused, refused_data

if HAS_NO_GENSIM:
    pytest.skip(WHY_NO_GENSIM, allow_module_level=True)


def written(path, lines, separator, ends, marked, last):
    """A file of fields, perhaps with a byte order mark, a comment, a blank line and an end of the
    last line.
    """
    text = [
        "# a comment",
        *(separator.join(line) for line in lines[:1]),
        "",
        *(separator.join(line) for line in lines[1:]),
    ]
    path.write_bytes(b"\xef\xbb\xbf" * marked + (ends.join(text) + ends * last).encode())
    return path


@pytest.mark.parametrize("separator", ["\t", ",", ", ", ";", "   "])
def test_every_layout_is_read(tmp_path, separator):
    for ends, marked, last in (("\n", False, True), ("\r\n", True, False), ("\r\n", False, True)):
        rest = (separator, ends, marked, last)
        pairs = word_sets.read_pairs(
            written(tmp_path / "p", [("Tiger", "cat", "7.35"), ("sex", "love", "6")], *rest)
        )
        assert pairs.words == [("Tiger", "cat"), ("sex", "love")]
        assert pairs.gold.tolist() == [7.35, 6]
        questions = word_sets.read_analogies(
            written(
                tmp_path / "q",
                [("he", "she", "his", "her"), ("Oslo", "Norway", "Rome", "Italy")],
                *rest,
            )
        )
        assert questions.words == [("he", "she", "his", "her"), ("Oslo", "Norway", "Rome", "Italy")]


def test_headings_quotation_marks_and_words_with_spaces(tmp_path):
    file = tmp_path / "set.csv"
    file.write_text('"word1","word2","score"\n"old","new",1.58\n')
    assert word_sets.read_pairs(file).words == [("old", "new")]
    file.write_text(": cities\nnew york\tny\tlos angeles\tca\n: empty\n: more\na b c d\n")
    questions = word_sets.read_analogies(file)
    assert questions.words == [("new york", "ny", "los angeles", "ca"), ("a", "b", "c", "d")]
    assert questions.sections == ["cities", "more"]


@pytest.mark.parametrize(
    "content",
    [
        "word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2.7\nbig\tsmall\tA\t2\t3\n",
        "old\tnew\tA\t1.58\tANTONYMS\nbig\tsmall\tA\t2.00\tNONE\n",  # SimVerb's layout
        "Wort 1;Wort 2;Wert\nold;new;1,58\nbig;small;2,0\n",
        "old new 1,58\nbig small 2\n",
    ],
)
def test_the_score_of_a_pair_is_the_first_number_after_its_words(tmp_path, content):
    (tmp_path / "set.txt").write_text(content)
    pairs = word_sets.read_pairs(tmp_path / "set.txt")
    assert pairs.words == [("old", "new"), ("big", "small")]
    assert pairs.gold.tolist() == [1.58, 2]


@pytest.mark.parametrize(
    ("reader", "content", "option"),
    [
        (word_sets.read_pairs, ": family\nboy girl brother sister\n", "analogies"),
        (word_sets.read_pairs, "boy girl brother sister\nboy girl dad mum\n", "analogies"),
        (word_sets.read_analogies, "tiger\tcat\t7.35\n", "pairs"),
    ],
)
def test_a_set_of_the_other_kind_is_referred_to_its_option(tmp_path, reader, content, option):
    (tmp_path / "set.txt").write_text(content)
    with refused(None, option, kind=DataError):
        reader(tmp_path / "set.txt")


@pytest.mark.parametrize(
    ("reader", "content", "place", "quoted"),
    [
        (word_sets.read_pairs, "a,b,1\na,b\n", "set.txt:2", "`tiger TAB cat TAB 7.35`"),
        (word_sets.read_pairs, "a\tb\t1\na\tb\tx\n", "set.txt:2", "`tiger TAB cat TAB 7.35`"),
        (word_sets.read_pairs, "a\tb\tnan\n", "set.txt:1", "finite"),
        (word_sets.read_pairs, "a\t\t1\n", "set.txt:1", "missing"),
        (word_sets.read_pairs, "# nothing\n", "set.txt", "`tiger TAB cat TAB 7.35`"),
        (word_sets.read_analogies, ": s\na b c d\na b c\n", "set.txt:3", "3 words"),
        (word_sets.read_analogies, ": s\n", "set.txt", "`Athens Greece Oslo Norway`"),
        (word_sets.read_analogies, ": s\na,b,c\n", "set.txt:2", "1 word"),
    ],
)
def test_malformed_lines_of_test_sets_are_named(tmp_path, reader, content, place, quoted):
    (tmp_path / "set.txt").write_text(content)
    with refused_data(place, quoting=quoted):
        reader(tmp_path / "set.txt")


# ---- input, output and summed vectors


def some_vectors():
    return WordVectors(
        [f"w{k}" for k in range(24)],
        {"input": np.float32(np.random.default_rng(0).normal(size=(24, 6)))},
    )


def saved(folder, vectors, output=None):
    arrays = vectors.arrays if output is None else {**vectors.arrays, "output": output}
    return WordVectors(vectors.words, arrays, facts={"objective": "hs"}).save(folder)


def test_output_and_summed_vectors_are_scored(tmp_path):
    vectors = some_vectors()
    output = np.random.default_rng(7).normal(size=vectors.vectors.shape).astype(np.float32)
    folder = saved(tmp_path / "a", vectors, output)
    (tmp_path / "pairs").write_text("".join(f"g0w{i}\tg1w{i}\t{i}\n" for i in range(8)))
    for which, table in (
        ("input", vectors.vectors),
        ("output", output),
        ("sum", vectors.vectors + output),
    ):
        report = words.evaluate([folder], (), WordTests([tmp_path / "pairs"]), vectors=which)
        [expected] = words.score_items(
            WordVectors(vectors.words, {"input": table}), [word_sets.read_pairs(tmp_path / "pairs")]
        )
        assert (report.scores[0].score, report.as_dict()["vectors"]) == (expected.score, which)


@pytest.mark.parametrize("which", ["output", "sum"])
def test_rows_that_are_not_those_of_words_are_refused(tmp_path, which):
    vectors = some_vectors()
    tree = saved(tmp_path / "tree", vectors, np.ones((len(vectors) - 1, 6), np.float32))
    with refused("vectors", value=which, quoting=("23", "hs")):
        model.load(tree).of(which)
    with refused("vectors", value=which):
        model.load(saved(tmp_path / "none", vectors)).of(which)
    with refused("vectors", value="both", quoting="input, output, sum"):
        model.load(tree).of("both")


# ---- several runs a side


def test_sentences_agree_with_the_interval():
    far = word_report.ScoreDifference("pooled", "spearman", 0.02, (0.01, 0.03), 1800, (3, 3))
    assert (
        word_report.sentence(far, "AB")
        == "pooled: A is better than B by 0.020 (A - B: 95 % interval +0.010 to +0.030, 1,800"
        " items, 3 and 3 runs)."
    )
    near = word_report.ScoreDifference("Google analogies", "accuracy", -0.02, (-0.03, -0.01), 900)
    assert (
        word_report.sentence(near, "AB")
        == "Google analogies: B is better than A by 2.0 points (A - B: 95 % interval -3.0 to -1.0"
        " points, 900 items)."
    )
    none = dataclasses.replace(far, interval=(-0.001, 0.041))
    assert word_report.sentence(none, "AB").startswith(
        "pooled: A and B cannot be told apart (A - B: 95 % interval -0.001"
    )


@pytest.fixture
def two_sides(tmp_path):
    """Three models each of a good configuration and a bad one, and a set of pairs."""
    rng = np.random.default_rng(5)
    names = [f"w{k}" for k in range(80)]
    base = rng.normal(size=(80, 10))
    for side, noise in (("good", 0.2), ("bad", 3.0)):
        for seed in range(3):
            table = (
                base + noise * np.random.default_rng([seed, len(side)]).normal(size=base.shape)
            ).astype(np.float32)
            saved(tmp_path / f"{side}.{seed}", WordVectors(names, {"input": table}))
    units = base / np.linalg.norm(base, axis=1, keepdims=True)
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"w{k}\tw{k + 40}\t{units[k] @ units[k + 40]}\n" for k in range(40))
    )
    return tmp_path


def test_two_configurations_with_several_seeds(two_sides):
    good = [two_sides / f"good.{seed}" for seed in range(3)]
    tests = WordTests([two_sides / "pairs.tsv"])
    report = words.evaluate(good, [two_sides / "bad.*"], tests)
    assert report.sides == ["A1", "A2", "A3", "B1", "B2", "B3"]
    [difference] = report.differences
    scores = [score.score for score in report.scores]
    assert difference.difference == pytest.approx(
        np.mean(scores[:3]) - np.mean(scores[3:]), abs=1e-12
    )
    assert difference.runs == (3, 3)
    [sentence] = report.conclusions()
    assert sentence.startswith("pairs: A is better than B by ")
    assert report.table().splitlines()[-1] == sentence
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["conclusions"] == [sentence]
    rows = [line.split("\t") for line in report.tsv().splitlines()]
    assert {len(row) for row in rows} == {10}
    assert [row[1] for row in rows[1:]] == [
        *map(str, good),
        *(str(two_sides / f"bad.{k}") for k in range(3)),
        "A - B",
    ]
    assert rows[1][3] == f"{scores[0]:.6g}"
    alone = words.evaluate(good[:1], good[1:2], tests)
    assert alone.conclusions()[-1].startswith(f"{good[0]} and {good[1]} are one run each")
    several = words.evaluate(good, (), tests)
    assert several.sides == list("ABC")[: len(good)]
    heading, row = several.table().splitlines()[len(good) + 1 :]
    assert heading.split() == ["set", "measure", *several.sides, "items", "OOV", "restrict_vocab"]
    for score in several.scores:
        assert f"{score.score:.3f} (" in row
    with refused("against", value=str(two_sides / "worse.*")):
        words.evaluate(good[:1], [two_sides / "worse.*"], tests)


def test_the_command_line_takes_them_all(two_sides):
    sets = ("--pairs", "pairs.tsv")
    completed = run_command(
        two_sides, "eval", "good.0", "good.1", "good.2", "--against", "bad.*", *sets
    )
    rows = [line.split("\t") for line in completed.stdout.splitlines()]
    assert rows[0][:4] == ["set", "model", "measure", "score"]
    assert [row[0] for row in rows[1:]] == ["pairs"] * 7
    assert "pairs: A is better than B by" in completed.stderr
    result = json.loads(run_command(two_sides, "eval", "good.0", "bad.0", *sets, "--json").stdout)
    assert [difference["measure"] for difference in result["differences"]] == ["spearman"]
    assert result["protocol"]["name"] == "embedx"
    (two_sides / "q.txt").write_text(": s\nw0 w1 w2 w3\nw4 w5 w6 w7\nw8 w9 w10 w11\n")
    result = json.loads(
        run_command(
            two_sides, "eval", "good.0", "--analogies", "q.txt", "--json", "--protocol", "gensim"
        ).stdout
    )
    assert (result["protocol"]["name"], len(result["scores"])) == ("gensim", 1)
    completed = run_command(two_sides, "nn", "good.0", "w1", "--vectors", "sum", check=False)
    assert completed.returncode == 2
    (line,) = completed.stderr.splitlines()
    assert line.startswith("embedx: --vectors sum: ")
    completed = run_command(
        two_sides, "eval", "good.0", "--against", "bad.*", "--text", "pairs.tsv", check=False
    )
    assert completed.returncode == 2
    (line,) = completed.stderr.splitlines()
    assert line.startswith("embedx: --text ")
    assert "--against" in line
