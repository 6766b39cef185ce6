"""Training on the rows that an index finds: exact where it finds all of them, and learning where it
does not.
"""

import io

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import embedx
from embedx.classification.classifier import load
from embedx.classification.row_blocks import joined_blocks
from embedx.classification.settings import ClassifySettings
from embedx.cli.setting_options import classify_options, train_options
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.objectives.hs import HierarchicalSoftmax
from embedx.objectives.ldgs import Ldgs
from embedx.objectives.margin import Margin
from embedx.objectives.mips import Mips
from embedx.objectives.softmax import Softmax
from embedx.runtime.progress import Reporter
from embedx.skipgram import strategies
from embedx.skipgram.configuration import configure
from tests.support import word_training
from tests.support.commands import invoke
from tests.support.label_training import train
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused
from tests.support.retrieval_problem import FINDS_EVERY_LABEL, problem
from tests.support.two_topics import CARS

pytestmark = pytest.mark.usefixtures("few_rows_are_retrieved")


def run(objective, data, progress=None, **options):
    options = {"epochs": 2, "batch_size": 10, "threads": 1, "learning_rate": 0.1} | options
    if data.is_sparse:
        options |= {"hidden": 12}
    instance = objective(objective.Settings.from_options(options))
    return train(data, instance, ClassifySettings.from_options(options), progress=progress)


@pytest.mark.compiles("labels")
@pytest.mark.parametrize(
    ("kind", "optimizer", "loss", "exact", "labels", "score"),
    [
        ("dense", "sgd", "margin", Margin, "all", "inner-product"),
        ("hidden", "adagrad", "margin", Margin, "one", "inner-product"),
        ("dense", "adagrad", "softmax", Softmax, "one", "inner-product"),
        ("hidden", "sgd", "softmax", Softmax, "all", "inner-product"),
        ("hidden", "sgd", "margin", Margin, "one", "euclidean"),
        ("dense", "adagrad", "softmax", Softmax, "one", "euclidean"),
    ],
)
def test_where_every_row_is_found_training_is_exact(kind, optimizer, loss, exact, labels, score):
    data = problem(kind, n=100)
    settings = {
        "optimizer": optimizer,
        "labels": labels,
        "score": score,
        "schedule": "constant",
        "epochs": 2 if optimizer == "sgd" else 1,
    }
    if labels == "one":  # which label stands for all is drawn elsewhere: rows of one label, then
        first = data.labels.offsets[:-1]
        data = Labeled(
            data.features, Labels(np.arange(len(data) + 1), data.labels.ids[first]), data.n_labels
        )
    expected = run(exact, data, **settings).classifier.arrays
    for blocks in (1, 3):
        retrieved = run(
            Ldgs, data, **settings, **FINDS_EVERY_LABEL, loss=loss, blocks=blocks, clusters=4
        ).classifier.arrays
        for name in expected:
            np.testing.assert_allclose(retrieved[name], expected[name], atol=2e-4)
    assert abs(expected["output"]).max() > 0.05


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        (Mips, {}),
        (Ldgs, {}),
        (Mips, {"loss": "softmax"}),
        (Ldgs, {"threads": 2, "l2": 1e-4}),
        (Ldgs, {"rescore": False, "iterations": 20, "scored_fraction": 1.0}),
        # by biases that know the frequencies the same rows would be found for all
        (Mips, {"warm_up": 0.0, "bias": "zero"}),
    ],
)
def test_digits_are_learned_from_retrieved_rows(objective, options):
    training, test = digits(400, 200)
    trained = run(
        objective,
        training,
        **(
            {"scored_fraction": 0.3, "candidate_fraction": 1.0, "clusters": 5, "epochs": 10}
            | options
        ),
    )
    assert trained.classifier.evaluate(test)["accuracy"] > 0.75


def test_the_search_begins_after_the_warm_up_and_says_so():
    data = problem("dense")
    log = io.StringIO()
    run(Ldgs, data, Reporter(log), warm_up=1.5, blocks=4)
    assert log.getvalue().count("search begins: 40 rows in 6 clusters in each of 4 blocks") == 1
    log = io.StringIO()
    run(Ldgs, data, Reporter(log), warm_up=2.0)
    assert "search begins" not in log.getvalue()

    def output_rows(**settings):
        return run(Ldgs, data, schedule="constant", **settings).classifier.arrays["output"]

    drawn = output_rows(warm_up=2.0)
    partly = output_rows(warm_up=1.0)
    uniform = output_rows(sampler="uniform")
    np.testing.assert_array_equal(drawn, uniform)
    assert abs(drawn - partly).max() > 0.01


def test_the_same_seed_gives_the_same_rows():
    data = problem("hidden")

    def output_rows(**options):
        return run(Ldgs, data, scored_fraction=0.2, **options).classifier.arrays["output"]

    first = output_rows()
    np.testing.assert_array_equal(first, output_rows())
    assert abs(first - output_rows(seed=2)).max() > 0


def test_search_is_refused_for_sparse_features():
    data = problem("dense")
    sparse = Labeled(csr_matrix(data.features), data.labels, data.n_labels)
    with refused("sampler", "hidden", value="search"):
        train(sparse, Ldgs(Ldgs.Settings()), ClassifySettings(epochs=1, sampler="search"))
    log = io.StringIO()
    trained = train(
        sparse, Ldgs(Ldgs.Settings()), ClassifySettings(epochs=1), progress=Reporter(log)
    )
    assert lines_with(log.getvalue(), "every label", "hidden=100")
    exact = train(sparse, Margin(Margin.Settings()), ClassifySettings(epochs=1))
    np.testing.assert_array_equal(
        trained.classifier.arrays["output"], exact.classifier.arrays["output"]
    )


# ---- words


def test_a_search_that_finds_every_word_trains_the_exact_softmax(two_topics, monkeypatch):
    options = {
        "dim": 8,
        "epochs": 2,
        "sample": 0,
        "threads": 1,
        "block_size": 4,
        "optimizer": "rowwise-adagrad",
        "learning_rate": 0.5,
    }
    monkeypatch.setattr(strategies, "INITIAL_STATE_OF_ALL_ROWS", 0.0)  # as where rows are found
    exact = embedx.SkipGram("softmax", **options).fit(two_topics).model
    everything = {**FINDS_EVERY_LABEL, "loss": "softmax", "blocks": 3, "clusters": 2, "found": 256}
    retrieved = embedx.SkipGram("ldgs", **options, **everything).fit(two_topics).model
    np.testing.assert_allclose(retrieved.vectors, exact.vectors, atol=2e-3)
    assert abs(exact.vectors).max() > 0.3


@pytest.mark.parametrize(
    "options", [{}, {"loss": "margin"}, {"threads": 3}, {"bias": "none", "optimizer": "sgd"}]
)
def test_words_learn_their_topic_from_retrieved_rows(two_topics, options):
    options = {"dim": 16, "epochs": 5, "sample": 0, "scored_fraction": 0.3, "threads": 1} | options
    model = embedx.SkipGram("ldgs", **options).fit(two_topics).model
    assert {word for word, _ in model.most_similar("truck", top_k=3)} <= set(CARS)


def test_without_a_tail_rows_that_are_not_found_are_never_updated(two_topics, monkeypatch):
    """Where each word finds one row, the biases of the exact softmax are out of reach without
    drawn rows.
    """
    options = {"dim": 8, "epochs": 1, "sample": 0, "threads": 1, "bias": "zero"}
    options |= {"optimizer": "rowwise-adagrad", "learning_rate": 1.5}
    monkeypatch.setattr(strategies, "INITIAL_STATE_OF_ALL_ROWS", 0.0)  # as where rows are found
    few_found = {**options, "found": 1, "warm_up": 0.0, "draws": 30}
    bias = {
        tail: embedx.SkipGram("ldgs", **few_found, tail=tail).fit(two_topics).model.arrays["bias"]
        for tail in (True, False)
    }
    exact = embedx.SkipGram("softmax", **options)
    exact = exact.fit(two_topics).model.arrays["bias"]
    assert abs(bias[True] - exact).max() < 0.5 * abs(bias[False] - exact).max()


@pytest.mark.parametrize("name", ["found", "refresh", "tail"])
def test_labels_do_not_take_the_search_settings_of_words(name):
    assert name in train_options()
    assert name not in classify_options()
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        embedx.SoftmaxClassifier("ldgs", **{name: 3})


def test_the_memory_of_retrieved_rows_is_reported(two_topics, tmp_path):
    log = io.StringIO()
    word_training.train(
        two_topics,
        configure("ldgs", {"epochs": 1, "threads": 1}),
        progress=Reporter(log, is_verbose=True),
        cache_dir=tmp_path,
    )
    assert lines_with(log.getvalue(), "2 highest-scoring rows", "MB")


# ---- prediction


@pytest.fixture(scope="module", params=["dense", "hidden"])
def saved(request, tmp_path_factory):
    """A saved softmax model of many labels, and its features."""
    data = problem(request.param, n=600, n_labels=300)
    folder = tmp_path_factory.mktemp("searched") / request.param
    run(Softmax, data, epochs=5).classifier.save(folder)
    return folder, data.features


def test_a_search_scores_a_share_of_all_labels_and_reports_its_recall(saved):
    folder, features = saved
    model = load(folder)
    true_ids, true_p = joined_blocks(model.iter_top_k(features, 4))
    for share, threads in (1.0, 1), (0.1, 2):
        notes = Notes()
        searched = model.searched_top_k(features, 4, share=share, threads=threads, progress=notes)
        ids, p = joined_blocks(searched)
        recall = np.mean(
            [np.isin(a, b).mean() for a, b in zip(true_ids[:200], ids[:200], strict=True)]
        )
        assert any(f"finds {100 * recall:.1f} % of the best 4" in note for note in notes.notes)
        if share == 1:
            np.testing.assert_array_equal(ids, true_ids)
            np.testing.assert_allclose(p, true_p, rtol=1e-3)
        else:
            assert 0.5 < recall < 1


def test_predict_by_search_reports_its_recall(tmp_path, capsys):
    data = problem("dense", n=600, n_labels=300)
    run(Softmax, data).classifier.save(tmp_path / "model")
    np.save(tmp_path / "features.npy", data.features)
    words = [
        "predict",
        str(tmp_path / "model"),
        str(tmp_path / "features.npy"),
        "--top-k",
        "3",
        "--search",
    ]
    invoke(*words, "--threads", "1", "--scored-fraction", "0.5")
    log = capsys.readouterr()
    assert [line.count("\t") for line in log.out.splitlines()] == [5] * 600
    assert "150 of 300 labels" in log.err


def test_search_is_refused_for_models_that_do_not_support_it():
    tree = run(HierarchicalSoftmax, problem("dense"), epochs=1).classifier
    with refused("search", quoting="hs "):
        tree.searched_top_k(problem("dense").features)
    data = problem("dense")
    sparse = Labeled(csr_matrix(data.features), data.labels, 40)
    wide = train(sparse, Softmax(Softmax.Settings()), ClassifySettings(epochs=1))
    with refused("search", quoting="dense features"):
        wide.classifier.searched_top_k(csr_matrix(data.features))
