"""How uncertain word vectors are: variances against the curvature of the loss, standard errors of
cosines against draws, and what shows them.
"""

import json

import numpy as np
import pytest
from scipy.special import logsumexp

import embedx
from embedx.report import words as pages
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.vectors.model import WordVectors
from embedx.vectors.uncertainty import Uncertainty, uncertainty_of
from tests.support.commands import invoke
from tests.support.refusals import refused, refused_data

N = 30
DIM = 4


def model(**settings):
    """A model with counts that fall from 3,000 to 1."""
    rng = np.random.default_rng(0)
    counts = np.maximum(3000 // np.arange(1, N + 1) ** 2, 1)
    arrays = {name: rng.normal(size=(N, DIM)).astype(np.float32) for name in ("input", "output")}
    arrays["bias"] = rng.normal(size=N).astype(np.float32)
    recorded = {"sample": 1.0, "window": 4, "sampler": "unigram", "architecture": "skipgram"}
    return WordVectors(
        [f"w{k}" for k in range(N)],
        arrays,
        counts=counts,
        settings=recorded | settings,
        facts={"objective": "ar"},
    )


def test_precisions_are_the_curvature_of_the_loss_of_all_pairs_of_a_word():
    """5 pairs a token: those within windows of 1 to 4 words to each side."""
    vectors = model()
    w = vectors.arrays["output"].astype(float)
    h = vectors.vectors.astype(float)
    prior = np.mean(h**2)
    variances = Uncertainty(vectors).variances(np.array([3, 20]))
    step = 1e-3
    for row, variances_of_row in zip((3, 20), variances, strict=True):
        for d in range(DIM):
            at = [h[row] + change * np.eye(DIM)[d] for change in (-step, 0, step)]
            low, middle, high = (logsumexp(w @ x + vectors.arrays["bias"]) for x in at)
            curvature = (low - 2 * middle + high) / step**2
            n_pairs = 5 * vectors.counts[row]
            assert 1 / variances_of_row[d] == pytest.approx(
                1 / prior + n_pairs * curvature, rel=1e-3
            )


def test_standard_errors_are_the_deviations_of_drawn_cosines():
    vectors = model()
    others = ["w0", "w2", "w4"]
    errors = vectors.cosine_errors("w1", others)
    rows = np.array([1, 0, 2, 4])
    variances = Uncertainty(vectors).variances(rows)
    noise = np.random.default_rng(0).normal(size=(4000, 4, DIM))
    drawn = vectors.vectors[rows] + np.sqrt(variances) * noise
    drawn /= np.linalg.norm(drawn, axis=2, keepdims=True)
    cosines = np.einsum("nd,nkd->nk", drawn[:, 0], drawn[:, 1:])
    assert errors == pytest.approx(cosines.std(axis=0), rel=0.1)


def test_rare_words_are_more_uncertain_than_frequent_ones():
    variances = Uncertainty(model()).variances(np.arange(N)).mean(axis=1)
    assert variances[:3].max() < variances[20:].min()


@pytest.mark.parametrize(
    "vectors",
    [
        model(architecture="cbow"),
        model(walks=10),
        model(window=WHOLE_SENTENCE),
        WordVectors(["a", "b"], {"input": np.eye(2, dtype=np.float32)}),
    ],
)
def test_vectors_whose_training_does_not_tell_it_have_no_uncertainty(vectors):
    assert uncertainty_of(vectors) is None
    with refused("intervals"):
        vectors.cosine_errors(vectors.words[0], vectors.words[1:])


def test_vectors_of_zeros_have_none():
    vectors = model()
    vectors.arrays["input"] = np.zeros_like(vectors.arrays["input"])
    assert uncertainty_of(vectors) is None


def test_a_model_without_a_record_has_none():
    vectors = model()
    vectors.settings = {}
    assert uncertainty_of(vectors) is None
    with refused_data(repr(vectors)):
        Uncertainty(vectors)


def test_neighbours_are_printed_with_intervals(tmp_path, capsys):
    folder = str(model().save(tmp_path / "model"))
    invoke("nn", folder, "w1", "--intervals", "--top-k", "2")
    for line in capsys.readouterr().out.splitlines():
        cosine, low, high = map(float, line.split("\t")[2:])
        assert -1 <= low < cosine < high <= 1
    invoke("nn", folder, "w1", "--intervals", "--top-k", "2", "--json")
    for neighbour in json.loads(capsys.readouterr().out)["w1"]:
        low, high = neighbour["interval"]
        assert low < neighbour["cosine"] < high
    invoke("nn", folder, "w1", "--top-k", "2")
    assert [line.count("\t") for line in capsys.readouterr().out.splitlines()] == [2, 2]


def test_the_page_of_a_model_has_intervals():
    vectors = model()
    near = {"w25": vectors.most_similar("w25", top_k=3)}
    _, row = pages.neighbour_rows(vectors, ["w25"], near, {})
    assert row[1].count(" ± ") == 3
    vectors.settings = {}
    _, row = pages.neighbour_rows(vectors, ["w25"], near, {})
    assert " ± " not in row[1]


@pytest.mark.parametrize(
    ("cosine", "bound", "text"),
    [
        (0.62, 0.131, "0.62 ± 0.13"),
        (-0.4, 1.2, "-0.40 ± 1.20"),
        (0.62, 2.87, "0.62 ± ?"),
        (-0.62, 1.62, "-0.62 ± ?"),
        (0.0, float("inf"), "0.00 ± ?"),
    ],
)
def test_an_interval_that_has_all_cosines_tells_nothing(cosine, bound, text):
    assert pages.with_interval(cosine, bound) == text


def test_a_trained_model_has_intervals(tmp_path):
    text = tmp_path / "text.txt"
    words = np.random.default_rng(0).integers(0, 20, 4000)
    text.write_text(" ".join(f"word{k}" for k in words))
    trained = embedx.train(str(text), output=str(tmp_path / "m"), dim=8, epochs=1, threads=1)
    errors = trained.cosine_errors("word1", ["word2", "word3"])
    assert ((errors > 0) & (errors < 2)).all()
