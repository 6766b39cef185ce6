"""`embedx.load`: any model, ready to answer, by several threads, without scikit-learn."""

import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import embedx
from embedx.classification.classifier import Classifier
from embedx.vectors.model import WordVectors
from tests.support import forked
from tests.support.refusals import refused_data

TICKETS = "title,weight,topic\n" + "".join(
    f"{word} number {n},{weight + n % 3},{topic}\n"
    for n in range(20)
    for word, weight, topic in (("broken lamp", 2, "repair"), ("late parcel", 40, "delivery"))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model of a table, of texts and of features."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "tickets.csv").write_text(TICKETS)
    lines = [line.split(",") for line in TICKETS.splitlines()[1:]]
    (folder / "tickets.txt").write_text(
        "".join(f"__label__{topic} {title}\n" for title, _, topic in lines)
    )
    (folder / "parts.svm").write_text("1 1:1 2:0.1\n0 1:0.1 2:1\n" * 20)
    for name in ("tickets.csv", "tickets.txt", "parts.svm"):
        embedx.classify(folder / name, output=folder / f"{name}.embedx", epochs=20)
    return folder


def test_records_texts_and_features_are_answered(folder):
    table = embedx.load(folder / "tickets.csv.embedx")
    assert isinstance(table, Classifier)
    rows = [{"title": "broken lamp", "weight": 2}, {"title": "late parcel", "weight": 41}]
    assert table.predict(rows).tolist() == ["repair", "delivery"]
    texts = embedx.load(str(folder / "tickets.txt.embedx"))
    assert texts.predict(["a late parcel", "my lamp"]).tolist() == ["delivery", "repair"]
    assert texts.predict_proba(["a late parcel"]).sum() == pytest.approx(1, abs=1e-5)
    features = embedx.load(folder / "parts.svm.embedx")
    assert features.predict(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == ["1", "0"]


def test_word_vectors_are_opened_as_before(tmp_path):
    WordVectors(["a"], {"input": np.ones((1, 2), np.float32)}, counts=np.array([1])).save(
        tmp_path / "words"
    )
    assert isinstance(embedx.load(tmp_path / "words"), WordVectors)
    with refused_data("nowhere"):
        embedx.load("nowhere")


def test_loading_a_classifier_imports_no_module_for_training_or_word_vectors(folder):
    modules = ["scipy.optimize", "embedx.vectors", "embedx.classification.run", "numba"]
    code = (
        "import sys\nimport embedx\nembedx.load(sys.argv[1]).predict(['a late parcel'])\n"
        f"print(*[name for name in {modules} if name in sys.modules])"
    )
    assert output_of(code, folder / "tickets.txt.embedx") == "numba"


def test_a_classifier_answers_without_scikit_learn(folder):
    code = (
        "import sys\nfor name in ('sklearn', 'pandas', 'joblib'): sys.modules[name] = None\n"
        "import embedx\nmodel = embedx.load(sys.argv[1])\n"
        "print(model.predict(['a late parcel'])[0])"
    )
    assert output_of(code, folder / "tickets.txt.embedx") == "delivery"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("tickets.csv", [{"title": "broken lamp", "weight": 2}]),
        ("tickets.txt", ["a late parcel"]),
        ("parts.svm", [[1.0, 0.0]]),
    ],
)
def test_the_first_answer_of_a_loaded_classifier_loads_no_kernels(folder, name, rows):
    code = (
        "import sys\nimport embedx\nfrom embedx.kernels import adjusted\n"
        "model = embedx.load(sys.argv[1])\nadjusted._Kernel._compiled = None\n"
        f"print(model.predict({rows!r})[0])"
    )
    assert output_of(code, folder / f"{name}.embedx") in ("repair", "delivery", "1")


def output_of(code, *arguments):
    """What Python code prints in a process that has imported nothing of embedx."""
    home = Path(arguments[0]).parent
    environment = forked.environment(home)
    completed = forked.run(*arguments, cwd=home, env=environment, code=code, imported="numba")
    return completed.stdout.strip()


def test_eight_threads_get_the_answers_of_one(folder):
    model = embedx.load(folder / "tickets.txt.embedx")
    texts = [f"{word} {n}" for n in range(40) for word in ("late lamp", "broken parcel", "zzz")]
    expected = [model.top_k([text], 2) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            answers = list(pool.map(lambda text: model.top_k([text], 2), texts))
            for (labels, p), (expected_labels, expected_p) in zip(answers, expected, strict=True):
                assert labels.tolist() == expected_labels.tolist()
                assert p.tolist() == expected_p.tolist()


def test_a_request_leaves_its_features_alone_whatever_their_indices(folder):
    model = embedx.load(folder / "parts.svm.embedx")
    features = csr_matrix(np.array([[1.0, 0.5], [0.0, 1.0]], np.float32))
    before = features.copy()
    wide = features.copy()
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    answers = [model.top_k(rows, 2) for rows in (features, wide, features[:1], before)]
    for labels, p in answers:
        assert labels.tolist() == answers[0][0][: len(labels)].tolist()
        assert p.tolist() == answers[0][1][: len(p)].tolist()
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(features, part), getattr(before, part))


@pytest.fixture(scope="module")
def words(two_topics, tmp_path_factory):
    """A model of word vectors."""
    return embedx.train(
        str(two_topics), epochs=1, dim=4, output=tmp_path_factory.mktemp("words") / "model"
    )


@pytest.mark.parametrize(
    "value", [None, 3, b"model.embedx", ["model.embedx"], {"a": 1}, np.ones(2), object]
)
def test_what_is_no_path_is_refused_as_a_model_and_as_an_output(value, two_topics, words):
    name = type(value).__qualname__
    with refused_data("model", quoting=name):
        embedx.load(value)
    with refused_data("model"):
        embedx.SoftmaxClassifier.load(value)
    with refused_data("model"):
        embedx.write_report(value)
    with refused_data("folder", quoting=name):
        words.save(value)
    with refused_data("path", quoting=name):
        words.export(value)
    if value is not None:
        with refused_data("output"):
            embedx.train(str(two_topics), output=value)
        with refused_data("output"):
            embedx.write_report("model", value)
        with refused_data("output"):
            embedx.compare(str(two_topics), "ns,hs", value)


def test_vectors_of_gensim_in_memory_are_refused_with_the_way_to_write_them():
    keyed_vectors = pytest.importorskip("gensim.models").KeyedVectors(2)
    with refused_data("model", quoting="save_word2vec_format"):
        embedx.load(keyed_vectors)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "0 bytes"),
        (b"\x89HDF\r\n\x1a\n" + bytes(90), "HDF5"),
        (b"GGUF" + bytes(90), "GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        (b'{"weights": 1}', "JSON"),
    ],
)
def test_a_file_of_another_kind_is_called_what_it_is(content, kind, tmp_path):
    file = tmp_path / "model.bin"
    file.write_bytes(content)
    with refused_data("model.bin", quoting=kind):
        embedx.load(file)


def test_a_model_of_pytorch_is_called_a_zip_archive(tmp_path):
    file = tmp_path / "model.pt"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
    with refused_data("model.pt", quoting="PyTorch"):
        embedx.load(file)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("config.cfg", "spaCy"),
        ("config.json", "Hugging Face"),
        ("run.json", "embedx resume"),
        ("runs.jsonl", "embedx compare"),
        ("one.embedx/model.json", "one.embedx"),
        ("text.txt", "model.json"),
    ],
)
def test_a_folder_of_another_kind_is_called_what_it_is(file, kind, tmp_path):
    path = tmp_path / "folder" / file
    path.parent.mkdir(parents=True)
    path.touch()
    for load in (embedx.load, embedx.SoftmaxClassifier.load):
        with refused_data("folder", quoting=kind):
            load(tmp_path / "folder")


def test_data_frames_and_bytes_are_not_read_as_sentences():
    frame = pytest.importorskip("pandas").DataFrame({"text": ["a b", "b c"]})
    with refused_data("corpora", quoting="data frame"):
        embedx.SkipGram().fit(frame)
    with refused_data("corpora", quoting="b'a.txt'"):
        embedx.train(b"a.txt")
