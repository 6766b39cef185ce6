"""The commands of word2vec.c and fastText: what they write and print here."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.errors import EmbedxError, InapplicableError
from tests.support.commands import invoke as run, run_command, words_of
from tests.support.refusals import refused, refused_data


@pytest.mark.slow
def test_a_model_of_fasttexts_commands_answers_as_fasttexts(
    two_topics, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    line = f"-input {two_topics} -output ft -dim 4 -epoch 1 -minCount 1 -bucket 50 -thread 1"
    run("skipgram", *line.split())
    model = embedx.load("ft")
    assert embedx.load("ft.vec").words == model.words
    word = model.words[0]
    capsys.readouterr()

    run("print-ngrams", "ft.bin", word)
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == [word, *model.subwords.ngrams.of(word)]
    vectors = np.array([row[1:] for row in rows], float)
    np.testing.assert_allclose(vectors.mean(axis=0), model[word], rtol=1e-3, atol=1e-4)

    run("dump", "ft.bin", "args")
    settings = dict(row.split() for row in capsys.readouterr().out.splitlines())
    assert settings["dim"] == "4"
    assert (settings["model"], settings["loss"], settings["bucket"]) == ("skipgram", "ns", "50")
    assert (settings["minn"], settings["maxn"]) == ("3", "6")
    run("dump", "ft.bin", "dict")
    n_words, first, *_ = capsys.readouterr().out.splitlines()
    assert n_words == str(len(model))
    assert first == f"{word} {model.counts[0]} word"


def test_the_hidden_layer_of_a_classifier_gives_sentence_vectors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("__label__a red\n__label__b blue\n" * 20)
    line = "-input train.txt -output model -dim 3 -epoch 2 -thread 1"
    run("supervised", *line.split())
    monkeypatch.setattr(sys, "stdin", io.StringIO("red\nred red\n"))
    capsys.readouterr()
    run("print-sentence-vectors", "model.bin")
    one, two = capsys.readouterr().out.splitlines()
    assert len(one.split()) == 3
    assert one == two


def test_the_word2vec_command_writes_vectors_and_vocabulary_in_word2vec_formats(
    two_topics, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    line = (
        f"-train {two_topics} -output v.bin -size 6 -iter 1 -min-count 1 -threads 1 -binary 1"
        " -save-vocab v.txt"
    )
    run("word2vec", *line.split())
    output = capsys.readouterr()
    assert output.out.splitlines()[1:] == ["v.bin", "v.txt"]
    options = words_of("--dim 6 --epochs 1 --min-count 1 --threads 1 --sample 1e-3 --output same")
    run("train", str(two_topics), "--architecture", "cbow", *options)
    model = embedx.load("same")
    written = embedx.load("v.bin")
    assert written.words == model.words
    np.testing.assert_array_equal(written.vectors, model.vectors)
    np.testing.assert_array_equal(embedx.load("v.bin.embedx").vectors, model.vectors)
    rows = [row.split() for row in (tmp_path / "v.txt").read_text().splitlines()]
    assert rows == [
        [word, str(count)] for word, count in zip(model.words, model.counts, strict=True)
    ]
    for again, place in ((line, "v.bin"), (line.replace("v.bin", "new.bin"), "v.txt")):
        with refused_data(place, "overwrite"):
            run("word2vec", *again.split())
    assert not list(tmp_path.glob("new.bin*"))  # nothing was trained
    run("word2vec", *line.replace("-binary 1", "-binary 0").split(), "--overwrite")
    assert (tmp_path / "v.bin").read_text().startswith(f"{len(model.words)} 6\n{model.words[0]} ")


def test_supervised_learns_texts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(
        "__label__good a nice film\n__label__bad an awful film\n" * 100
    )
    line = "-input train.txt -output model -dim 4 -epoch 20 -thread 1 -wordNgrams 2 -bucket 50"
    run("supervised", *line.split())
    both, unknown = "__label__bad __label__good a nice film", "__label__odd a film"
    (tmp_path / "test.txt").write_text(
        f"__label__good an awful film\n__label__good nice\n{both}\n{unknown}\n"
    )
    answers = []
    for more in (["1"], ["2"], ["2", "0.5"]):
        capsys.readouterr()
        run("test", "model.bin", "test.txt", *more)
        answers.append(capsys.readouterr().out.split())
    # three rows with known labels, four of these
    assert answers[0] == ["N", "3", "P@1", f"{2 / 3:.3g}", "R@1", f"{2 / 4:.3g}"]
    assert answers[1] == ["N", "3", "P@2", f"{4 / 6:.3g}", "R@2", "1"]
    assert answers[2] == ["N", "3", "P@2", f"{2 / 3:.3g}", "R@2", f"{2 / 4:.3g}"]
    capsys.readouterr()
    for command, threshold in (("predict-prob", []), ("predict", ["0"]), ("test-label", ["0.5"])):
        for k in ("-1", "2"):
            run(command, "model.bin", "test.txt", k, *threshold)
        output = capsys.readouterr().out.replace("@-1", "@2")
        of_all = output[: len(output) // 2]
        assert output == of_all * 2
        with pytest.raises(EmbedxError):
            run(command, "model.bin", "test.txt", "0")
    run("test-label", "model.bin", "test.txt")
    of_labels = capsys.readouterr().out
    texts = (tmp_path / "test.txt").read_text()
    assert run_command(tmp_path, "test-label", "model.bin", "-", input=texts).stdout == of_labels
    for options in (["--json"], ["--abstain"], ["--coverage", "0.9"], ["--id-column", "id"]):
        for place in (["model.bin", "test.txt"], ["model", "test.txt", "2"]):
            setting = options[0].removeprefix("--").replace("-", "_")
            with refused(setting, kind=InapplicableError):
                run("predict", *place, *options)
    run("predict-prob", "model", "test.txt", "2")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[::2] for row in rows[:2]] == [
        ["__label__bad", "__label__good"],
        ["__label__good", "__label__bad"],
    ]
    assert [float(row[1]) + float(row[3]) for row in rows] == pytest.approx([1] * 4, abs=1e-4)


def test_a_tsv_of_annif_has_a_text_and_its_subjects(tmp_path):
    red = "red apple\t<http://x.org/fruit> <http://x.org/red>\n"
    (tmp_path / "annif.tsv").write_text((red + "blue sea\t<http://x.org/blue>\n") * 40)
    options = words_of("--header no --text-column 1 --label-column 2 --epochs 3 --output subjects")
    run_command(
        tmp_path, "classify", "annif.tsv", *options, "--set", "label-separator= ", "--threads", 1
    )
    completed = run_command(tmp_path, "predict", "subjects", "-", "--top-k", 2, input="red apple\n")
    subjects = completed.stdout.split()[::2]
    assert set(subjects) == {"<http://x.org/fruit>", "<http://x.org/red>"}
