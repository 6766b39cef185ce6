"""What probabilities are worth by what is known of a row: unknown words, other languages, other
labels.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits

from embedx import SoftmaxClassifier, classify
from embedx.classification import familiarity, familiarity_fit, left_out_labels, perturbed_rows
from embedx.classification.classifier import Classifier, load
from embedx.classification.objective_choice import configure_classifier
from embedx.classification.ranking import iter_answers
from embedx.classification.row_blocks import joined_blocks
from embedx.classification.run import ClassifierRun
from embedx.errors import SettingError
from embedx.labeled.data import DataSchema, Labeled, Labels
from embedx.labeled.files import MemoryBudget
from embedx.labeled.words import TextFeatureSettings, text_features
from tests.support.commands import run_command
from tests.support.label_training import train
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data

DOCS = Path(__file__).parents[1] / "docs"

TOPICS = {
    "billing": "invoice charged twice card declined amount refund payment wrong receipt bank",
    "delivery": "parcel courier late tracking address arrived street door lost driver depot",
    "account": "password login email reset locked profile name settings code phone delete",
}
COMMON = ["hello", "please", "help", "my", "the", "is", "not", "and", "have", "with", "for", "you"]
OTHER_TOPIC = ["article", "journalist", "logo", "interview", "newspaper", "editor", "press"]


def tickets(n, seed, topics=TOPICS):
    """Texts with the words of a topic among common ones, and their topics by number."""
    rng = np.random.default_rng(seed)
    words = [text.split() for text in topics.values()]
    topic = rng.integers(len(words), size=n)
    texts = [
        " ".join([*rng.choice(words[k], 4), *rng.choice(COMMON, 5), f"x{rng.integers(500)}"])
        for k in topic
    ]
    return texts, topic


@pytest.fixture(scope="module")
def model() -> Classifier:
    texts, topics = tickets(1500, 0)
    words = text_features(TextFeatureSettings(), MemoryBudget("tickets"), None)
    words.add(texts)
    features, schema = words.finish()
    known = DataSchema(features.shape[1], len(TOPICS), list(TOPICS), schema, by_name=True)
    data = Labeled(features, Labels.single(topics), len(TOPICS), known)
    config = configure_classifier(None, {"threads": 1}, lambda: data)
    return train(data, config.objective, config.settings).classifier


def first_probability(model, texts):
    return model.top_k(texts, 1)[1][:, 0]


def test_texts_like_those_of_training_keep_their_probabilities(model):
    texts, topics = tickets(500, 1)
    p = first_probability(model, texts)
    is_right = model.predict(texts) == np.array(list(TOPICS))[topics]
    assert is_right.mean() > 0.97
    assert abs(p.mean() - is_right.mean()) < 0.05
    assert (p > 0.8).mean() > 0.95


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zzzz qqqq",
        "Ich habe meine Rechnung zweimal bezahlt",
        "mi tarjeta the fue rechazada y quiero una solución",
        "12345 67890",
    ],
)
def test_text_of_mostly_unknown_words_passes_no_threshold(model, text):
    assert first_probability(model, [text])[0] < 0.5
    assert model.predict_set([text], threshold=0.8).nnz == 0


def test_probabilities_fall_with_the_share_of_words_that_are_known(model):
    words = ["invoice", "charged", "twice", "refund", "payment"]
    unknown = ["Rechnung", "zweimal", "bezahlt", "Geld", "zurück"]
    texts = [" ".join([*words[: 5 - k], *unknown[:k]]) for k in range(6)]
    p = first_probability(model, texts)
    assert (np.diff(p) < 0).all()
    assert p[0] > 0.9
    assert p[4] < 0.8


def test_without_a_known_word_probabilities_are_at_most_the_shares_of_the_labels(model):
    labels, p = model.top_k(["", "zzzz"], 3)
    shares = dict(zip(TOPICS, model.counts / model.counts.sum(), strict=True))
    assert all(
        probability <= shares[label] + 1e-6
        for label, probability in zip(labels.ravel(), p.ravel(), strict=True)
    )
    assert model.predict_set([""], threshold=0.0).nnz == 0


def test_none_of_these_is_an_answer_for_other_topics(model):
    rng = np.random.default_rng(2)
    others = [" ".join([*rng.choice(OTHER_TOPIC, 4), *rng.choice(COMMON, 5)]) for _ in range(200)]
    known, _ = tickets(200, 3)
    none = [model.predict(texts, abstain=True) == None for texts in (others, known)]  # noqa: E711
    assert none[0].mean() > 0.8
    assert none[1].mean() < 0.1


def test_predict_prints_none_of_these_and_counts_rows_without_known_words(model, tmp_path):
    model.save(tmp_path / "m")
    rows = tmp_path / "rows.txt"
    rows.write_text("zzzz qqqq\ninvoice charged twice refund please help my\n")
    command = ["predict", str(tmp_path / "m"), str(rows), "--top-k", "1", "--abstain"]
    completed = run_command(tmp_path, *command)
    lines = completed.stdout.splitlines()
    assert lines[0].startswith("none of these\t")
    assert lines[1].startswith("billing\t")
    assert "1 of 2 rows" in completed.stderr
    as_json = run_command(tmp_path, *command, "--json").stdout.splitlines()
    assert json.loads(as_json[0])[0]["label"] is None


def test_a_saved_and_loaded_model_predicts_the_same(model, tmp_path):
    texts = [*tickets(20, 4)[0], "zzzz", "invoice Geld"]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(
        first_probability(load(tmp_path / "m"), texts), first_probability(model, texts)
    )


def test_a_model_without_factors_answers_as_before_and_does_not_abstain(model):
    texts, _ = tickets(20, 5)
    arrays = {name: array for name, array in model.arrays.items() if name != "familiarity"}
    old = Classifier(
        model.objective, arrays, model.schema, model.counts, model.settings, model.facts
    )
    features = model.features_of(texts)
    for _, answers in iter_answers(old, features, 1):
        np.testing.assert_array_equal(answers.p[:, 0], first_probability(old, texts))
    with refused("abstain"):
        old.predict(texts, abstain=True)


def test_decreasing_familiarity_factors_are_refused():
    with refused_data("familiarity.npy"):
        familiarity.check({"familiarity": -np.ones((2, 6))})


def test_damaged_rows_have_as_many_words_as_before_where_words_are_replaced():
    rng = np.random.default_rng(0)
    features = csr_matrix(rng.integers(0, 3, (20, 8)).astype(np.float32))
    later = perturbed_rows.as_read_later(features, np.arange(8) != 3, 8)
    np.testing.assert_array_equal(later.toarray()[:, 8], features.toarray()[:, 3])
    *_, replaced = perturbed_rows.perturbed(later, np.arange(8) != 3, 8, rng)
    np.testing.assert_array_equal(replaced.features.sum(axis=1), later.sum(axis=1))


def test_unknown_words_of_a_validation_file_stay_unknown(tmp_path):
    known = csr_matrix(np.array([[1, 2, 0], [0, 0, 3]], np.float32))
    from_file = csr_matrix(np.array([[1, 2, 0, 4], [0, 0, 3, 0]], np.float32))
    is_seen = np.array([True, False, True])
    of_rows = perturbed_rows.as_read_later(known, is_seen, 3).toarray()
    assert of_rows.tolist() == [[1, 0, 0, 2], [0, 0, 3, 0]]
    of_file = perturbed_rows.as_read_later(from_file, is_seen, 3).toarray()
    assert of_file.tolist() == [[1, 0, 0, 6], [0, 0, 3, 0]]

    for name, seed in (("train.txt", 1), ("validation.txt", 2)):
        rows = zip(*tickets(200, seed), strict=True)
        lines = [f"__label__{topic} {text}\n" for text, topic in rows]
        (tmp_path / name).write_text("".join(lines))
    command = ["classify", "train.txt", "--validation", "validation.txt", "--output", "m"]
    run_command(tmp_path, *command)
    completed = run_command(tmp_path, "eval", "m", "--test", "validation.txt", "--json")
    assert json.loads(completed.stdout)["test"]["accuracy"] > 0.9


def test_an_estimator_abstains_as_the_classifier_that_it_holds():
    texts, labels = tickets(1500, 0)
    rows = ["refund refund", "zzzz qqqq", ""]
    fitted = SoftmaxClassifier(optimizer="adagrad", calibration=0.2, random_state=0, n_jobs=1)
    fitted.fit(texts, labels)
    answers = fitted.predict(rows, abstain=True)
    names = fitted.classifier_.predict(rows, abstain=True).tolist()
    assert [None if answer is None else str(answer) for answer in answers] == names
    assert answers[1] is None
    assert answers[2] is None
    assert answers[0] == fitted.predict(rows)[0]


def test_rows_of_standard_input_without_a_known_word_are_counted(model, tmp_path):
    model.save(tmp_path / "m")
    completed = run_command(tmp_path, "predict", "m", "-", input="zzzz\nrefund\nqqqq\n")
    assert "2 of 3 rows" in completed.stderr


def test_topics_that_training_lacks_are_seldom_accepted(tmp_path, monkeypatch):
    """The tickets of the notebook, which often have a sentence of another topic."""
    notebook = json.loads((DOCS / "notebooks" / "tickets.ipynb").read_text("utf-8"))
    code = next(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    monkeypatch.chdir(tmp_path)
    exec("".join(code), {})
    tickets = []
    for name in ("tickets.csv", "test.csv"):
        with open(name, newline="") as file:
            rows = list(csv.DictReader(file))
        tickets += [(f"{row['title']} {row['body']}", row["topic"]) for row in rows]
    lacking = {"app", "returns"}
    lines = [f"__label__{topic} {text}\n" for text, topic in tickets[:2100] if topic not in lacking]
    (tmp_path / "training.txt").write_text("".join(lines))
    model = classify(tmp_path / "training.txt", threads=1)

    test = tickets[2100:]
    features = model.features_of([text for text, _ in test])
    ids, p = joined_blocks(model.iter_top_k(features, 1, abstain=True))
    is_accepted = (ids[:, 0] != familiarity.NONE_OF_THESE) & (p[:, 0] >= 0.8)
    is_foreign = np.array([topic in lacking for _, topic in test])
    assert is_accepted[is_foreign].mean() < 0.07
    assert is_accepted[~is_foreign].mean() > 0.5


def test_digits_that_training_lacks_are_seldom_accepted():
    features, digits = load_digits(return_X_y=True)
    features = (features / 16).astype(np.float32)
    accepted = []
    for seed in (1, 2, 3):
        rng = np.random.default_rng(seed)
        lacking = rng.choice(10, 3, replace=False)
        order = rng.permutation(len(features))
        training = order[:1440]
        test = order[1440:]
        training = training[~np.isin(digits[training], lacking)]
        model = SoftmaxClassifier(optimizer="adagrad", calibration=0.15, random_state=seed)
        model.fit(features[training], digits[training])
        ids, p = joined_blocks(model.classifier_.iter_top_k(features[test], 1, abstain=True))
        is_accepted = (ids[:, 0] != familiarity.NONE_OF_THESE) & (p[:, 0] >= 0.8)
        is_foreign = np.isin(digits[test], lacking)
        accepted.append((is_accepted[is_foreign].mean(), is_accepted[~is_foreign].mean()))
    foreign, known = np.mean(accepted, axis=0)
    assert foreign <= 0.05
    assert known > 0.4


def test_at_most_a_twentieth_of_unknown_labels_is_accepted():
    rng = np.random.default_rng(0)
    terms = rng.random((400, familiarity.N_TERMS))
    p = rng.uniform(0.5, 1, 400)
    weights = np.array([3.0, 1.0, 1.0, 0.5, 0.0])

    def is_accepted(weights):
        return (
            p / (1 + np.exp(-weights[0] - terms @ weights[1:]))
            >= familiarity_fit.ACCEPTED_PROBABILITY
        )

    lower = familiarity_fit.with_lower_w0(weights, terms, p)
    assert is_accepted(weights).mean() > 0.3
    assert is_accepted(lower).sum() == 20
    assert (lower[1:] == weights[1:]).all()
    assert (familiarity_fit.with_lower_w0(lower, terms, p) == lower).all()
    assert (familiarity_fit.with_lower_w0(weights, terms[:0], p[:0]) == weights).all()


def test_each_label_is_unknown_to_one_of_the_classifiers():
    features = np.eye(40, dtype=np.float32)
    topics = np.repeat([0, 1, 2, 3, 4, 5, 7], [10, 10, 8, 5, 3, 3, 1])
    data = Labeled(csr_matrix(features), Labels.single(topics), 8)
    n_unknown = np.zeros(8, int)
    for subset in left_out_labels.label_subsets(data, data.labels):
        n_unknown += ~subset.is_known
        is_trained_on = subset.is_known[topics]
        assert (subset.is_seen == is_trained_on).all()
        known = np.flatnonzero(subset.is_known)
        assert (known[subset.training.labels.ids] == topics[is_trained_on]).all()
        assert subset.training.n_labels == len(known)
    # No row has label 6, which none of the classifiers knows.
    assert n_unknown.tolist() == [1, 1, 1, 1, 1, 1, left_out_labels.N_GROUPS, 1]


def test_with_two_labels_there_are_no_groups_of_left_out_labels():
    data = Labeled(np.eye(6, dtype=np.float32), Labels.single(np.repeat([0, 1], 3)), 2)
    assert not list(left_out_labels.label_subsets(data, data.labels))


def four_labels():
    """Rows of four labels, of which some are held out, and how they are trained."""
    features = np.random.default_rng(0).random((1200, 8), dtype=np.float32)
    data = Labeled(features, Labels.single(features[:, :4].argmax(axis=1)), 4)
    return data, configure_classifier(None, {"threads": 1, "epochs": 2}, lambda: data)


def test_a_note_says_why_no_classifier_without_some_labels_is_trained(monkeypatch):
    train_run = ClassifierRun.train

    def refuse_without_held_out(run, plan, checkpoints):
        if run.split.calibration is None and run.data.n_labels < 4:
            raise SettingError("dim", 7, "is too much")
        return train_run(run, plan, checkpoints)

    monkeypatch.setattr(ClassifierRun, "train", refuse_without_held_out)
    data, config = four_labels()
    progress = Notes()
    trained = train(data, config.objective, config.settings, progress=progress)
    assert "familiarity" in trained.classifier.arrays
    assert len(lines_with(progress.notes, "--abstain", "--dim 7")) == 1


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_note_says_how_many_rows_of_unknown_labels_pass_a_threshold(monkeypatch, is_shown):
    monkeypatch.setattr(familiarity_fit, "MAX_ACCEPTED_SHARE", 0.0 if is_shown else 1.0)
    data, config = four_labels()
    progress = Notes()
    train(data, config.objective, config.settings, progress=progress)
    assert bool(lines_with(progress.notes, "120 held-out", "0.8", "--abstain")) == is_shown


def test_ctrl_c_while_labels_are_left_out_keeps_the_classifier(monkeypatch):
    interrupted_runs = []
    train_run = ClassifierRun.train

    def interrupt_without_held_out(run, plan, checkpoints):
        if run.split.calibration is None:
            interrupted_runs.append(run)
            raise KeyboardInterrupt
        return train_run(run, plan, checkpoints)

    monkeypatch.setattr(ClassifierRun, "train", interrupt_without_held_out)
    data, config = four_labels()
    trained = train(data, config.objective, config.settings)
    assert len(interrupted_runs) == 1
    assert isinstance(trained.outcome.interrupted_by, KeyboardInterrupt)
    assert trained.classifier.facts["examples"] == 1080
    assert "familiarity" in trained.classifier.arrays
