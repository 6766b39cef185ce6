"""`SkipGram` from Python: as a transformer of scikit-learn, and with callbacks."""

import pickle
import sys
import types

import numpy as np
import pytest

import embedx
from embedx.errors import EmbedxError, InapplicableError, SettingError
from embedx.training import trainer
from tests.support.clock import Clock
from tests.support.refusals import refused, refused_data
from tests.support.two_topics import CATS

SMALL = {"dim": 8, "epochs": 3, "threads": 1, "min_count": 1, "sample": 0.0}


@pytest.fixture(scope="module")
def documents(two_topics):
    """Token lists, and whether each is about cars."""
    lines = [line.split() for line in two_topics.read_text().splitlines()[:1500]]
    return lines, [int(not set(CATS) & set(line)) for line in lines]


def test_a_document_becomes_the_mean_of_its_words(documents):
    texts, _ = documents
    fitted = embedx.SkipGram(**SMALL).fit(texts)
    means = fitted.transform([["cat", "dog"], ["unheard-of"]])
    np.testing.assert_allclose(
        means, [fitted.model[["cat", "dog"]].mean(axis=0), np.zeros(8)], atol=1e-7
    )
    np.testing.assert_array_equal(
        embedx.SkipGram(**SMALL).fit_transform(texts), fitted.transform(texts)
    )
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(fitted)).transform(texts), fitted.transform(texts)
    )
    assert fitted.get_feature_names_out().tolist() == [f"skipgram{k}" for k in range(8)]


def test_token_lists_may_be_given_once(documents):
    texts, _ = documents
    once = embedx.SkipGram(**SMALL).fit_transform(iter(texts))
    np.testing.assert_array_equal(once, embedx.SkipGram(**SMALL).fit_transform(texts))


def test_tokens_that_look_like_features_are_words():
    baskets = [["12:345", "12:346", "3:1"], ["12:345", "__label__x", "3:1"]] * 20
    model = embedx.SkipGram(**SMALL).fit(baskets).model
    assert set(model.words) == {"12:345", "12:346", "3:1", "__label__x"}


def test_the_output_is_a_data_frame_where_that_is_asked_for(documents, monkeypatch):
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    texts, _ = documents
    fitted = embedx.SkipGram(**SMALL).fit(texts)
    array = fitted.transform(texts[:3])
    frames = types.SimpleNamespace(DataFrame=lambda rows, **columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", frames)
    monkeypatch.setitem(sys.modules, "polars", frames)
    names = [f"skipgram{k}" for k in range(8)]
    assert make_pipeline(fitted).set_output(transform="pandas").steps[0][1] is fitted
    rows, columns = fitted.transform(texts[:3])
    np.testing.assert_array_equal(rows, array)
    assert (columns["columns"].tolist(), columns["index"]) == (names, None)
    assert clone(fitted)._sklearn_output_config == {"transform": "pandas"}
    assert fitted.set_output(transform="polars").transform(texts[:3])[1] == {"schema": names}
    assert fitted.set_output().transform(texts[:3])[1] == {"schema": names}
    np.testing.assert_array_equal(
        fitted.set_output(transform="default").transform(texts[:3]), array
    )
    with pytest.raises(SettingError) as error:
        fitted.set_output(transform="csv")
    assert (error.value.setting, error.value.value) == ("transform", "csv")


def test_the_transformer_works_in_a_pipeline_and_in_a_search(documents):
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    texts, topics = documents
    steps = make_pipeline(embedx.SkipGram(**{**SMALL, "epochs": 10}), LogisticRegression())
    steps.fit(texts[:1000], topics[:1000])
    assert steps.score(texts[1000:], topics[1000:]) > 0.9
    search = GridSearchCV(clone(steps), {"skipgram__dim": [4, 6]}, cv=2, error_score="raise").fit(
        texts[:400], topics[:400]
    )
    assert search.best_estimator_[0].model.vector_size in (4, 6)
    assert [parameters["skipgram__dim"] for parameters in search.cv_results_["params"]] == [4, 6]


def test_parameters_are_read_set_and_cloned(tmp_path):
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    estimator = embedx.SkipGram("ar", dim=7, cache_dir=tmp_path, window=3)
    assert estimator.get_params() == {
        "objective": "ar",
        "cache_dir": tmp_path,
        "dim": 7,
        "window": 3,
    }
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert copy.set_params(objective="ns", dim=9) is copy
    assert (copy.config.objective.name, copy.config.settings.dim, copy.config.settings.window) == (
        "ns",
        9,
        3,
    )
    assert (estimator.config.objective.name, estimator.config.settings.dim) == ("ar", 7)
    with pytest.raises(TypeError, match="dimension"):
        copy.set_params(dimension=3)
    with refused("dim", value=0):
        copy.set_params(window=8, dim=0)
    assert (copy.config.settings.dim, copy.config.settings.window) == (9, 3)
    assert repr(embedx.SkipGram(dim=3)) == "SkipGram(dim=3)"
    with pytest.raises(NotFittedError):
        check_is_fitted(copy)
    for kind in (EmbedxError, NotFittedError):
        with refused(kind=kind):
            copy.transform([["a"]])
    assert not hasattr(copy, "model")


def test_gensims_names_are_taken():
    estimator = embedx.SkipGram(
        vector_size=7,
        sg=0,
        negative=3,
        workers=1,
        alpha=0.05,
        iter=2,
        max_final_vocab=9,
        cbow_mean=1,
    )
    settings = estimator.config.settings
    assert (settings.dim, settings.architecture, settings.threads, settings.epochs) == (
        7,
        "cbow",
        1,
        2,
    )
    assert (settings.learning_rate, settings.optimizer) == (0.05, "sgd")
    assert (
        estimator.config.objective.settings.negatives,
        estimator.config.vocabulary.max_vocab,
    ) == (3, 9)
    assert embedx.SkipGram(hs=1, negative=0).config.objective.name == "hs"
    assert estimator.set_params(vector_size=5).get_params()["dim"] == 5
    assert estimator.set_params(size=6).get_params()["dim"] == 6
    for arguments, quoted in (
        ({"dim": 3, "vector_size": 4}, "vector_size=4 .*dim=3"),
        ({"objective": "ar", "hs": 1}, "hs=1 .*objective='ar'"),
    ):
        with pytest.raises(TypeError, match=quoted):
            embedx.SkipGram(**arguments)
    with pytest.raises(ValueError, match="cbow_mean=0"):
        embedx.SkipGram(cbow_mean=0)
    with refused("negatives", "objective", kind=InapplicableError):
        embedx.SkipGram("hs", negatives=3)


def test_training_continues_with_more_text_and_its_words(documents):
    fitted = embedx.SkipGram(**SMALL).partial_fit(documents[0])
    before = fitted.model["cat"].copy()
    n_tokens = int(fitted.model.counts.sum())
    fitted.partial_fit([["lorry", "car", "road"]] * 50)
    assert int(fitted.model.counts.sum()) == n_tokens + 150
    np.testing.assert_allclose(fitted.model["cat"], before, atol=1e-6)  # which the new text has not
    assert dict(fitted.model.most_similar("car", topn=8)).keys() >= {"lorry", "road"}


def test_commands_are_functions(documents, tmp_path):
    rows = tmp_path / "rows.txt"
    labels = tmp_path / "labels"
    rows.write_text(
        "".join(f"__label__{y} {' '.join(x)}\n" for x, y in zip(*documents, strict=True))
    )
    words = embedx.train(documents[0], **SMALL, output=tmp_path / "words", verbose=True)
    np.testing.assert_array_equal(embedx.load(tmp_path / "words").vectors, words.vectors)
    assert embedx.evaluate(tmp_path / "words").models == [str(tmp_path / "words")]
    classifier = embedx.classify(rows, output=labels, threads=1, epochs=2)
    assert (
        embedx.evaluate(labels, test=rows)["p@1"]
        == embedx.evaluate(classifier, test=rows)["p@1"]
        > 0.9
    )
    assert embedx.write_report(labels, tmp_path / "page.html").is_file()
    with refused_data("labels", "overwrite"):
        embedx.classify(rows, output=labels, threads=1, epochs=1)
    with pytest.raises(TypeError, match=r"\bepoch\b.*\bepochs\?"):
        embedx.compare(str(rows), ["ns"], tmp_path / "out", epoch=1)
    with refused("epochs", "time_budget", kind=InapplicableError):
        embedx.compare(str(rows), ["ns"], tmp_path / "out", epochs=1, time_budget="3s")
    assert embedx.__version__[0].isdigit()


def test_callbacks_are_called_after_every_epoch(documents, monkeypatch):
    monkeypatch.setattr(trainer, "time", Clock(tick=0.01))
    ends, vectors_seen = [], []

    def look(end):
        ends.append(end)
        vectors_seen.append(end.model["cat"].copy())

    fitted = embedx.SkipGram(**SMALL).fit(documents[0], callbacks=[look])
    assert [end.epoch for end in ends] == [1, 2, 3]
    assert ends[0].loss > ends[-1].loss > 0
    assert [end.words for end in ends] == [sum(map(len, documents[0]))] * 3
    assert 0 < ends[0].seconds < ends[1].seconds < ends[2].seconds
    assert not np.array_equal(vectors_seen[0], vectors_seen[1])  # the model so far
    np.testing.assert_array_equal(vectors_seen[2], fitted.model["cat"])
    without = embedx.SkipGram(**SMALL).fit(documents[0])
    np.testing.assert_array_equal(without.model.vectors, fitted.model.vectors)


def test_a_callback_ends_the_training_and_an_error_in_one_is_raised(documents):
    epochs_ended = []
    callbacks = [lambda end: end.epoch == 2, lambda end: epochs_ended.append(end.epoch)]
    fitted = embedx.SkipGram(**SMALL).fit(documents[0], callbacks=callbacks)
    assert epochs_ended == [1, 2]  # the others still hear of it
    assert fitted.outcome.epochs == 2
    fitted = embedx.SkipGram(**SMALL).fit(documents[0], callbacks=[lambda end: "not True"])
    assert fitted.outcome.epochs == 3

    def broken(end):
        raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        embedx.SkipGram(**SMALL).fit(documents[0], callbacks=[broken])


def test_callbacks_go_with_held_out_text(documents):
    epochs_ended = []
    options = {**SMALL, "heldout": 0.2, "heldout_points": 3}
    fitted = embedx.SkipGram(**options).fit(
        documents[0], callbacks=[lambda end: epochs_ended.append(end.epoch)]
    )
    assert epochs_ended == [1, 2, 3]
    assert [entry["epoch"] for entry in fitted.model.facts["history"]] == [1, 2]
