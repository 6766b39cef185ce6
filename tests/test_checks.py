"""What reaches compiled code from outside is refused in one line where a length, type or index is
wrong.
"""

import json

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix

import embedx
from embedx import checks
from embedx.errors import DataError
from embedx.graphs.graph import Graph
from embedx.skipgram.settings import StartSettings
from embedx.skipgram.start import Start
from embedx.storage.description import description_text
from embedx.storage.folder_files import DESCRIPTION
from embedx.vectors.model import WordVectors, load_folder
from tests.support.refusals import refused_data

RING = coo_matrix((np.ones(2000), (np.arange(2000), (np.arange(2000) + 1) % 2000)), (2000, 2000))
HIGHEST = 2**63 - 1


@pytest.mark.parametrize(
    "offsets", [[0, 2, 3], [0, 0, 3], [0, 3, 3]], ids=["rows", "first empty", "last empty"]
)
def test_offsets_may_be_equal(offsets):
    assert checks.wrong_offsets(np.array(offsets), 3) == ""


@pytest.mark.parametrize(
    ("offsets", "problem"),
    [
        ([0, HIGHEST, -2, 3], "offset 2 is below"),  # their differences overflow to be positive
        ([0, 2, 1, 3], "offset 2 is below"),
        ([1, 2, 3], "from 1 to 3"),
        ([0, 2, 4], "from 0 to 4"),
        ([], "empty"),
        ([0.0, 3.0], "float64"),
        ([[0, 3]], "int64 (1, 2)"),
    ],
)
def test_offsets_that_lead_out_of_the_array_are_wrong(offsets, problem):
    array = np.array(offsets, None if offsets else np.int64)
    with refused_data("offsets", quoting=problem):
        checks.refuse(checks.wrong_offsets(array, 3), "offsets")


def test_indices_below_0_or_beyond_the_range_are_wrong():
    assert checks.wrong_indices(np.array([0, 4, 2]), 5) == ""
    assert checks.wrong_indices(np.zeros(0, np.int32), 0) == ""
    assert "5" in checks.wrong_indices(np.array([0, 5]), 5)
    assert "-1" in checks.wrong_indices(np.array([-1, 3]), 5)
    assert str(2**64 - 1) in checks.wrong_indices(np.array([2**64 - 1], np.uint64), 5)
    assert "float64" in checks.wrong_indices(np.array([1.0]), 5)


def test_an_order_is_a_permutation():
    assert checks.wrong_order(np.array([2, 0, 1]), 3) == ""
    assert "twice" in checks.wrong_order(np.array([2, 0, 0]), 3)
    assert checks.wrong_order(np.array([2, 0]), 3)


# ---- graphs


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: Graph.from_scipy(RING, names=["a", "b"]), "names"),
        (lambda: Graph.from_scipy("ring"), "matrix"),
        (lambda: Graph.from_edges(np.array([[0, 1, 2], [1, 2, 3]])), "edges"),
        (lambda: Graph.from_edges(np.array([0, 1])), "edges"),
        (lambda: Graph.from_edges([("a", "b", 2.0)]), "edges"),
        (lambda: Graph.from_edges(["ab", "bc"]), "edges"),
        (lambda: Graph.from_edges([("a", "b")], weights=[1.0, 2.0]), "weights"),
        (lambda: Graph.from_edges([("a", "b")], weights=["much"]), "weights"),
        (lambda: Graph.from_edges([("a", "b")], weights=3.0), "weights"),
        (lambda: Graph.of_ids(["a", "b"], [[0], [2]], None, False), "edges"),
        (lambda: Graph.of_ids(["a", "b"], [[0], [-1]], None, False), "edges"),
        (lambda: Graph.of_ids(["a", "b"], [[0], [2**32 + 1]], None, False), "edges"),
    ],
)
def test_a_graph_is_refused_where_parts_do_not_fit(make, argument):
    with pytest.raises(DataError) as raised:
        make()
    assert raised.value.file == argument


@pytest.mark.parametrize(
    "changed",
    [
        {"names": ["a"]},
        {"offsets": np.array([0, HIGHEST, -2, 2])},
        {"neighbours": np.array([1, 7], np.int32)},
        {"cumulative": np.ones(1, np.float32)},
    ],
)
def test_a_graph_of_arrays_is_checked(changed):
    graph = Graph.from_edges([("a", "b")])
    parts = {
        name: getattr(graph, name) for name in ("names", "offsets", "neighbours", "cumulative")
    }
    assert len(Graph(**parts)) == 2
    with pytest.raises(DataError):
        Graph(**parts | changed)


# ---- classifiers


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.indices.__setitem__(3, 10**6),
        lambda x: x.indices.__setitem__(0, -5),
        lambda x: x.indptr.__setitem__(slice(1, 3), [2**31 - 1, -2]),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "top_k"])
def test_sparse_features_that_lead_out_of_their_arrays_are_refused(change, method):
    exceptions = pytest.importorskip("sklearn.exceptions")
    x = csr_matrix(np.eye(8, dtype=np.float32) + 1)
    y = np.arange(8) % 2
    estimator = embedx.SoftmaxClassifier(max_iterations=3)
    if method in ("predict", "top_k"):
        with pytest.warns(exceptions.ConvergenceWarning):
            estimator.fit(x, y)
    broken = x.copy()
    change(broken)
    arguments = {"fit": (y,), "partial_fit": (y, [0, 1])}.get(method, ())
    with pytest.raises(DataError) as raised:
        getattr(estimator, method)(broken, *arguments)
    assert raised.value.file == "X"


# ---- model folders


def words_model(path, **changed):
    """A little model with n-grams."""
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    arrays = {
        "input": rows,
        "output": rows,
        "word_part": rows,
        "ngram": rows,
        "ngram_bucket": np.array([1, 4, 9], np.int32),
        "heldout_counts": np.array([1, 0, 0]),
    }
    settings = {"subwords": "2-3", "buckets": 10, "window": 5, "sample": 0.001, "sampler": "all"}
    return WordVectors(
        ["a", "b", "c"],
        arrays | changed,
        counts=np.array([3, 2, 1]),
        settings=settings,
        facts={"objective": "ns"},
    ).save(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ngram_bucket", np.array([1, 4, 10], np.int32)),
        ("ngram_bucket", np.array([4, 1, 9], np.int32)),
        ("ngram_bucket", np.array([2**31 - 1, -(2**31), 9], np.int32)),
        ("heldout_counts", np.array([4, 0, 0])),
        ("heldout_counts", np.array([-1, 0, 0])),
    ],
)
def test_an_array_of_a_model_is_named_where_its_numbers_are_wrong(tmp_path, name, value):
    assert load_folder(words_model(tmp_path / "right")).words == ["a", "b", "c"]
    path = words_model(tmp_path / "wrong", **{name: value})
    with pytest.raises(DataError) as raised:
        load_folder(path)
    assert raised.value.file == path / f"{name}.npy"


def test_a_start_without_rows_for_all_words_is_refused(tmp_path):
    few = np.zeros((2, 2), np.float32)
    path = words_model(tmp_path / "m", output=few)
    with refused_data("m: output"):
        Start(StartSettings(start=str(path)))


def described(path, change):
    """Change model.json, with a checksum that fits."""
    file = path / DESCRIPTION
    description = json.loads(file.read_text())
    change(description)
    file.write_text(description_text(description))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("settings", "window", "five"),
        ("settings", "normalize", "nfx"),
        ("settings", "window", 0),
        ("settings", "sample", "little"),
        ("settings", "sampler", ["all"]),
        ("settings", "buckets", True),
        ("settings", "buckets", 1e9),
        ("settings", "subwords", 3),
        ("facts", "objective", ["ns"]),
        ("facts", "objective", 5),
        ("facts", "heldout", 0.5),
        ("facts", "history", {"epoch": 1}),
        ("facts", "history", [1, 2]),
        ("facts", "epochs", "many"),
    ],
)
def test_a_setting_or_fact_of_a_wrong_type_is_one_line(tmp_path, part, name, value):
    path = words_model(tmp_path / "m")
    described(path, lambda description: description[part].update({name: value}))
    with pytest.raises(DataError) as raised:
        load_folder(path)
    assert raised.value.file == path / DESCRIPTION
    assert name in raised.value.problem


def test_counts_whose_sum_overflows_are_refused(tmp_path):
    path = words_model(tmp_path / "m")
    names = path / "vocabulary.tsv"
    names.write_text("".join(f"{word}\t{10**18 - 1}\n" for word in "abc"))
    assert load_folder(path).counts.sum() > 0
    described(path, lambda description: description["names"].update(vocabulary=10))
    names.write_text("".join(f"{word}\t{10**18 - 1}\n" for word in "abcdefghij"))
    with pytest.raises(DataError) as raised:
        load_folder(path)
    assert raised.value.file == names
