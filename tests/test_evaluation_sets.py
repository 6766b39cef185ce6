"""Test sets in every layout that is about, those of words that belong together, and the comparison of several runs a side."""

import dataclasses
import json
import re

import numpy as np
import pytest
import reference_words
from needs import HAS_NO_GENSIM, WHY_NO_GENSIM
from test_cli import embedx_run, home  # noqa: F401

from embedx.errors import EmbedxError
from embedx.evaluation import groups, with_gensim, word_report, word_sets, words
from embedx.vectors import model
from embedx.vectors.model import WordVectors

if HAS_NO_GENSIM:
    pytest.skip(WHY_NO_GENSIM, allow_module_level=True)

ENDS = {"LF": "\n", "CRLF": "\r\n"}
SEPARATORS = {"tab": "\t", "comma": ",", "comma and space": ", ", "spaces": "   "}


def written(path, lines, separator, ends, marked, last):
    """A file of fields, perhaps with a byte order mark, a comment, a blank line and an end of the last line."""
    text = ["# a comment", *(separator.join(line) for line in lines[:1]), "", *(separator.join(line) for line in lines[1:])]
    path.write_bytes(b"\xef\xbb\xbf" * marked + (ends.join(text) + ends * last).encode())
    return path


@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=list(SEPARATORS))
@pytest.mark.parametrize("ends", ENDS.values(), ids=list(ENDS))
@pytest.mark.parametrize("marked", [False, True])
def test_every_layout_is_read(tmp_path, separator, ends, marked):
    for last in (False, True):
        rest = (separator, ends, marked, last)
        pairs = word_sets.read_pairs(written(tmp_path / "p", [("Tiger", "cat", "7.35"), ("sex", "love", "6")], *rest))
        assert pairs.words == [("Tiger", "cat"), ("sex", "love")]
        assert pairs.gold.tolist() == [7.35, 6]
        questions = word_sets.read_analogies(
            written(tmp_path / "q", [("he", "she", "his", "her"), ("Oslo", "Norway", "Rome", "Italy")], *rest)
        )
        assert questions.words == [("he", "she", "his", "her"), ("Oslo", "Norway", "Rome", "Italy")]
        found = word_sets.read_categories(written(tmp_path / "c", [("owl", "bird"), ("cat", "mammal")], *rest))
        assert (found.words, found.categories) == (["owl", "cat"], ["bird", "mammal"])


def test_headings_quotation_marks_and_words_with_spaces(tmp_path):
    file = tmp_path / "set.csv"
    file.write_text('"word1","word2","score"\n"old","new",1.58\n')
    assert word_sets.read_pairs(file).words == [("old", "new")]
    file.write_text("Word,Category\nowl,bird\nnew york,city\n")
    assert word_sets.read_categories(file).words == ["owl", "new york"]
    file.write_text(": cities\nnew york\tny\tlos angeles\tca\n: empty\n: more\na b c d\n")
    questions = word_sets.read_analogies(file)
    assert questions.words == [("new york", "ny", "los angeles", "ca"), ("a", "b", "c", "d")]
    assert questions.sections == ["cities", "more"]


@pytest.mark.parametrize(
    ("reader", "content", "complaint"),
    [
        (
            word_sets.read_pairs,
            "a,b,1\na,b\n",
            "set.txt:2: not a pair with its score; lines look like `tiger TAB",
        ),
        (word_sets.read_pairs, "a\tb\t1\na\tb\tx\n", "set.txt:2: not a pair"),
        (word_sets.read_pairs, "a\tb\tnan\n", "set.txt:1: a word is missing or the score is not finite"),
        (word_sets.read_pairs, "a\t\t1\n", "set.txt:1: a word is missing"),
        (word_sets.read_pairs, "# nothing\n", "set.txt: holds no pairs"),
        (word_sets.read_analogies, ": s\na b c d\na b c\n", "set.txt:3: 3 words; a question has four"),
        (word_sets.read_analogies, ": s\n", "set.txt: holds no questions"),
        (word_sets.read_analogies, ": s\na,b,c\n", "set.txt:2: 1 words; a question has four"),
        (
            word_sets.read_categories,
            "owl\tbird\ncat\n",
            "set.txt:2: not a word with its category; lines look like `owl TAB bird`",
        ),
        (word_sets.read_categories, "owl\tbird\ncat\t\n", "set.txt:2: not a word with its category"),
        (word_sets.read_categories, "# none\n", "set.txt: holds no words"),
        (word_sets.read_categories, "owl\tbird\nhen\tbird\n", "set.txt: all words are of the category bird; there must be two"),
        (word_sets.read_outliers, "a\nb\n\nx\n\nc\nd\n", "set.txt:7: 3 blocks of words; a group is words that belong together"),
        (word_sets.read_outliers, "# none\n", "set.txt: 0 blocks of words"),
        (word_sets.read_outliers, "a\n\nx\n", "set.txt: only a before its outliers; at least two words must belong together"),
    ],
)
def test_what_is_malformed_is_named(tmp_path, reader, content, complaint):
    (tmp_path / "set.txt").write_text(content)
    with pytest.raises(EmbedxError, match=re.escape(complaint)):
        reader(tmp_path / "set.txt")


# ---- words that belong together


def in_groups(n_groups=3, n=8, spread=0.4, seed=0, dim=6):
    """Words g0w0, g0w1, ... near one point for each group."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_groups, dim))
    names = [f"g{g}w{k}" for g in range(n_groups) for k in range(n)]
    return WordVectors(
        names, {"input": (np.repeat(centres, n, axis=0) + spread * rng.normal(size=(len(names), dim))).astype("f4")}
    )


def categories_of(vectors, wrong=()):
    return word_sets.Categories("animals", vectors.words, ["x" if word in wrong else word[:2] for word in vectors.words])


def test_clusters_that_are_the_categories_are_pure():
    vectors = in_groups(spread=0.1)
    [answers] = words.score(vectors, [categories_of(vectors)])
    assert (answers.score, answers.details["clusters"]) == (1, 3)
    [answers] = words.score(WordVectors([word.upper() for word in vectors.words], vectors.arrays), [categories_of(vectors)])
    assert answers.score == 1


def test_purity_counts_the_majority_of_each_cluster(monkeypatch):
    vectors = in_groups()
    cluster = np.random.default_rng(3).integers(4, size=len(vectors))
    monkeypatch.setattr(groups, "clusters", lambda points, how_many, seed: cluster)
    test = categories_of(vectors, wrong=("g0w1", "g1w2"))
    [answers] = words.score(vectors, [test])
    right = 0
    for k in range(4):
        inside = [category for category, each in zip(test.categories, cluster, strict=True) if each == k]
        right += max(map(inside.count, inside), default=0)
    assert answers.score == right / len(vectors) == np.mean(answers.values)
    assert words.summary("m", answers, 0).measure == "purity"


def test_clusters_are_the_same_each_time_and_a_seed_is_one():
    vectors = in_groups(5, 20, spread=1.5)
    test = categories_of(vectors)
    first, again, other = (
        words.score(vectors, [dataclasses.replace(test, seed=seed)])[0].values.tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


def test_unknown_words_are_left_out_of_their_category():
    vectors = in_groups(spread=0.1)
    test = word_sets.Categories("animals", [*vectors.words, "unicorn"], [*(word[:2] for word in vectors.words), "myth"])
    [answers] = words.score(vectors, [test])
    assert (answers.score, answers.details["clusters"]) == (1, 3)
    assert answers.used.tolist() == [True] * len(vectors) + [False]
    few = word_sets.Categories("animals", ["unicorn", "g0w0", "g1w0"], ["myth", "a", "b"])
    assert np.isnan(words.score(vectors, [few])[0].score)


def test_equal_vectors_make_fewer_clusters():
    vectors = WordVectors(list("abcd"), {"input": np.array([[1, 0], [1, 0], [1, 0], [0, 1]], np.float32)})
    keyed = with_gensim.keyed_vectors(vectors.words, vectors.vectors)
    answers = groups.purity(word_sets.Categories("x", list("abcd"), list("uvvw")), keyed)  # without k-means' warning
    assert answers.score == 0.75


@pytest.mark.parametrize("seed", range(3))
def test_outliers_are_told_as_by_compactness(seed):
    vectors = in_groups(3, 8, spread=1.2, seed=seed)
    group = [word for word in vectors.words if word.startswith("g0")]
    strangers = [word for word in vectors.words if word.startswith("g1")]
    positions = [reference_words.outlier_position(vectors[[*group, stranger]]) for stranger in strangers]
    [answers] = words.score(vectors, [word_sets.Outliers("8-8-8", [(group, strangers)])])
    assert answers.values.tolist() == [float(position == 8) for position in positions]
    assert answers.score == np.mean(answers.values)
    assert answers.details["opp"] == pytest.approx(np.mean(positions) / 8)
    assert 0 < answers.details["opp"] < 1


def test_unknown_words_of_a_group_take_no_part():
    vectors = in_groups(2, 4, spread=0.1)
    group = ["g0w0", "unicorn", "G0W1", "g0w2"]
    test = word_sets.Outliers("8-8-8", [(group, ["g1w0", "phoenix"]), (["unicorn", "g0w0"], ["g1w1"])])
    [answers] = words.score(vectors, [test])
    np.testing.assert_array_equal(answers.values, [1, np.nan, np.nan])


def test_outlier_files_and_folders(tmp_path):
    (tmp_path / "8-8-8").mkdir()
    (tmp_path / "8-8-8" / "cars.txt").write_text("# cars\r\nBMW\r\nMercedes Benz\r\n\r\n\r\nowl\r\nhen", newline="")
    (tmp_path / "8-8-8" / "birds.txt").write_text("owl\nhen\n\nBMW\n\ncat\ndog\n\nOslo\n")
    (tmp_path / "8-8-8" / ".hidden").write_text("")
    found = word_sets.read_outliers(tmp_path / "8-8-8")
    assert found.name == "8-8-8"
    assert found.groups == [
        (["owl", "hen"], ["BMW"]),
        (["cat", "dog"], ["Oslo"]),
        (["BMW", "Mercedes_Benz"], ["owl", "hen"]),
    ]
    assert len(found) == 4
    (tmp_path / "empty").mkdir()
    with pytest.raises(EmbedxError, match="empty: an empty folder"):
        word_sets.read_outliers(tmp_path / "empty")


# ---- input, output and summed vectors


def saved(folder, vectors, output=None):
    arrays = vectors.arrays if output is None else {**vectors.arrays, "output": output}
    return model.save(folder, words=vectors.words, counts=None, arrays=arrays, settings={}, facts={"objective": "hs"})


def test_output_and_summed_vectors_are_scored(tmp_path):
    vectors = in_groups(spread=2)
    output = np.random.default_rng(7).normal(size=vectors.vectors.shape).astype(np.float32)
    folder = saved(tmp_path / "a", vectors, output)
    (tmp_path / "pairs").write_text("".join(f"{a}\t{b}\t{i}\n" for i, (a, b) in enumerate(zip("wxyz", "xyzw", strict=True))))
    (tmp_path / "pairs").write_text("".join(f"g0w{i}\tg1w{i}\t{i}\n" for i in range(8)))
    for which, table in (("input", vectors.vectors), ("output", output), ("sum", vectors.vectors + output)):
        report = words.evaluate(folder, pairs=[tmp_path / "pairs"], which=which)
        [expected] = words.score(WordVectors(vectors.words, {"input": table}), [word_sets.read_pairs(tmp_path / "pairs")])
        assert (report.scores[0].score, report.as_dict()["vectors"]) == (expected.score, which)


@pytest.mark.parametrize("which", ["output", "sum"])
def test_rows_that_are_not_those_of_words_are_refused(tmp_path, which):
    vectors = in_groups()
    tree = saved(tmp_path / "tree", vectors, np.ones((len(vectors) - 1, 6), np.float32))
    with pytest.raises(EmbedxError, match=f"--vectors {which}: the 23 output rows of hs are not those of the words"):
        model.load(tree).of(which)
    with pytest.raises(EmbedxError, match=f"--vectors {which}: this model has no output vectors"):
        model.load(saved(tmp_path / "none", vectors)).of(which)
    with pytest.raises(EmbedxError, match="--vectors both: must be input, output or sum"):
        model.load(tree).of("both")


# ---- several runs a side


def runs_of(quality, seeds, luck, n=400):
    """The same pairs with models that know them well or badly, some by luck."""
    rng = np.random.default_rng(99)
    gold, hard = rng.integers(0, 9, n).astype(float), rng.normal(size=n)
    test = word_sets.SimilarityPairs("pairs", [(f"a{k}", f"b{k}") for k in range(n)], gold)
    found = []
    for seed in seeds:
        own = np.random.default_rng(seed)
        level = quality + luck * own.normal()
        found.append(word_sets.Answers(test, level * gold / 3 + hard + 0.1 * own.normal(size=n), np.nan, {}))
    return found


def test_the_variance_of_runs_widens_the_interval():
    a, b = runs_of(0.6, (1, 2, 3), 0.2), runs_of(0.6, (4, 5, 6), 0.2)
    wide, single = words.paired_difference(a, b), words.paired_difference(a[:1], b[:1])
    assert wide.runs == (3, 3)
    assert np.diff(wide.interval) > 2 * np.diff(single.interval)
    assert words.paired_difference(a, b) == wide
    assert np.diff(words.paired_difference(a[:1], b).interval) > 2 * np.diff(single.interval)  # by what b's runs tell


def test_sentences_say_what_the_interval_does():
    far = word_report.ScoreDifference("pooled", "spearman", 0.02, (0.01, 0.03), 1800, (3, 3))
    assert word_report.sentence(far) == (
        "pooled: A is better than B by 0.020 (A - B: 95 % interval +0.010 to +0.030, 1,800 items, 3 and 3 runs)."
    )
    near = word_report.ScoreDifference("Google analogies", "accuracy", -0.02, (-0.03, -0.01), 900)
    assert word_report.sentence(near) == (
        "Google analogies: B is better than A by 2.0 points (A - B: 95 % interval -3.0 to -1.0 points, 900 items)."
    )
    none = dataclasses.replace(far, interval=(-0.001, 0.041))
    assert word_report.sentence(none).startswith("pooled: A and B cannot be told apart (A - B: 95 % interval -0.001")


@pytest.fixture
def two_sides(tmp_path):
    """Three models each of a good configuration and a bad one, and a set of pairs."""
    rng = np.random.default_rng(5)
    names, base = [f"w{k}" for k in range(80)], rng.normal(size=(80, 10))
    for side, noise in (("good", 0.2), ("bad", 3.0)):
        for seed in range(3):
            table = (base + noise * np.random.default_rng([seed, len(side)]).normal(size=base.shape)).astype(np.float32)
            saved(tmp_path / f"{side}.{seed}", WordVectors(names, {"input": table}))
    units = base / np.linalg.norm(base, axis=1, keepdims=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"w{k}\tw{k + 40}\t{units[k] @ units[k + 40]}\n" for k in range(40)))
    return tmp_path


def test_two_configurations_with_several_seeds(two_sides):
    good = [two_sides / f"good.{seed}" for seed in range(3)]
    options = {"pairs": [two_sides / "pairs.tsv"]}
    report = words.evaluate(good[0], runs=good[1:], against=[two_sides / "bad.*"], **options)
    assert report.sides == ["A1", "A2", "A3", "B1", "B2", "B3"]
    [difference] = report.differences
    scores = [each.score for each in report.scores]
    assert difference.difference == pytest.approx(np.mean(scores[:3]) - np.mean(scores[3:]), abs=1e-12)
    assert difference.runs == (3, 3)
    [sentence] = report.conclusions()
    assert sentence.startswith("pairs: A is better than B by ")
    assert report.table().splitlines()[-1] == sentence
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["conclusions"] == [sentence]
    rows = [line.split("\t") for line in report.tsv().splitlines()]
    assert {len(row) for row in rows} == {10}
    assert [row[1] for row in rows[1:]] == [*map(str, good), *(str(two_sides / f"bad.{k}") for k in range(3)), "A - B"]
    assert float(rows[1][3]) == scores[0]
    alone = words.evaluate(good[0], good[1], **options)
    assert alone.conclusions()[-1].startswith("A and B are one run each")
    with pytest.raises(EmbedxError, match=r"three models or more are two configurations.* --against"):
        words.evaluate(good[0], runs=good[1:], **options)
    with pytest.raises(EmbedxError, match=r"--against .*worse\.\*: no such file or model folder"):
        words.evaluate(good[0], against=[two_sides / "worse.*"], **options)


def test_the_command_line_takes_them_all(two_sides):
    (two_sides / "c.tsv").write_text("".join(f"w{k}\t{'ab'[k % 2]}\n" for k in range(20)))
    (two_sides / "o.txt").write_text("w0\nw1\nw2\n\nw3\nw4\nw5\n")
    sets = ("--pairs", "pairs.tsv", "--categories", "c.tsv", "--outliers", "o.txt")
    done = embedx_run(two_sides, "eval", "good.0", "good.1", "good.2", "--against", "bad.*", *sets)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0][:4] == ["set", "model", "measure", "score"]
    assert [row[0] for row in rows[1:]] == ["pairs"] * 6 + ["c"] * 6 + ["o"] * 6 + ["pairs", "c", "o"]
    assert "pairs: A is better than B by" in done.stderr
    told = json.loads(embedx_run(two_sides, "eval", "good.0", "bad.0", *sets, "--json").stdout)
    assert [each["measure"] for each in told["differences"]] == ["spearman", "purity", "accuracy"]
    assert told["protocol"]["name"] == "embedx"
    (two_sides / "q.txt").write_text(": s\nw0 w1 w2 w3\nw4 w5 w6 w7\nw8 w9 w10 w11\n")
    told = json.loads(embedx_run(two_sides, "eval", "good.0", "--analogies", "q.txt", "--json", "--protocol", "gensim").stdout)
    assert (told["protocol"]["name"], len(told["scores"])) == ("gensim", 1)
    done = embedx_run(two_sides, "nn", "good.0", "w1", "--vectors", "sum", check=False)
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        ["embedx: --vectors sum: this model has no output vectors, which only a model folder keeps"],
    )
    done = embedx_run(two_sides, "eval", "good.0", "--against", "bad.*", "--heldout", "pairs.tsv", check=False)
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        ["embedx: --heldout compares two models at most; leave out --against and the others"],
    )
