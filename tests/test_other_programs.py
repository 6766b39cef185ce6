"""The names of options and the command lines of word2vec.c, gensim and fastText, and what they are here."""

import re
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.cli import aliases, commands, peers
from embedx.cli.app import application
from embedx.errors import EmbedxError

KNOWN = {
    "--dim": True, "--window": True, "--negatives": True, "--epochs": True, "--threads": True, "--min-count": True,
    "--sample": True, "--max-vocab": True, "--objective": True, "--optimizer": True, "--learning-rate": True, "--vocab": True,
    "--sampler-exponent": True, "--lowercase": False, "--no-lowercase": False, "--output": True,
    "--architecture": True,
}  # fmt: skip


class AskedError(Exception):
    """Ends a command where the library would begin."""


@pytest.fixture
def asked(monkeypatch):
    """What `embedx WORDS...` asks the library for: (objective, settings)."""
    found = []

    def run(given):
        found.append((given.objective, given.typed))
        raise AskedError

    monkeypatch.setattr(commands, "train", run)
    monkeypatch.setattr(commands, "classify", run)

    def ask(*words):
        with pytest.raises(AskedError):
            application(words)(list(words), standalone_mode=False)
        return found.pop()

    return ask


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("x --size 5 --output y", "x --dim 5 --output y"),
        ("x --vector-size=5", "x --dim 5"),
        ("x --vector_size 5 --workers 2 --min_count 3", "x --dim 5 --threads 2 --min-count 3"),  # gensim's own spelling
        ("x --ws 4 --neg 3 --epoch 2 --thread 1", "x --window 4 --negatives 3 --epochs 2 --threads 1"),
        ("x --minCount 3 --t 1e-3", "x --min-count 3 --sample 1e-3"),
        ("x -dim 5 -minCount 3 -t 0", "x --dim 5 --min-count 3 --sample 0"),  # fastText's dashes
        ("x -size 5 -iter 2 -threads 2 -read-vocab w", "x --dim 5 --epochs 2 --threads 2 --vocab w"),
        ("--negative 3 --ns-exponent 0.5 x", "--negatives 3 --sampler-exponent 0.5 x"),
        ("x --max-final-vocab 9", "x --max-vocab 9"),
        ("x --alpha 0.025 --optimizer sgd", "x --learning-rate 0.025 --optimizer sgd"),
        ("x --optimizer=sgd -lr 0.05", "x --optimizer=sgd --learning-rate 0.05"),
        ("x --sg 1 --hs 0 --wordNgrams 1 --maxn 0 --cbow-mean 1", "x --architecture skipgram"),
        ("x --sg=0", "x --architecture cbow"),
        ("x -cbow 1", "x --architecture cbow"),
        ("x --cbow 0", "x --architecture skipgram"),
        ("x --hs 1", "x --objective hs"),
        ("x --hs 1 --negative 0 --dim 4", "x --objective hs --dim 4"),
        ("x --negative=0 --hs 1", "x --objective hs"),
        ("x --lowercase --size 3", "x --lowercase --dim 3"),
        ("x --output --size --dim 3", "x --output --size --dim 3"),  # a name that is a value
        ("x --dim 3 -- --size", "x --dim 3 -- --size"),
        ("x --dim 3 --dim 4 -", "x --dim 3 --dim 4 -"),
        ("x --siez 3 --typo", "x --siez 3 --typo"),  # for who tells of unknown options
        ("x --size", "x --dim"),  # likewise
    ],
)
def test_names_of_others_become_ours(typed, ours):
    assert aliases.translated(typed.split(), KNOWN) == ours.split()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("x --size 5 --dim 5", "--size and --dim are two names of one setting; give one of them"),
        ("x --dim 5 --vector-size 5", "--dim and --vector-size are two names of one setting"),
        ("x --neg 5 --negative 5", "--neg and --negative are two names of one setting"),
        ("x --min-count 5 --minCount 5", "--min-count and --minCount are two names of one setting"),
        ("x --hs 1 --objective ns", "--hs and --objective are two names of one setting"),
        (
            "x --hs 1 --negative 5",
            "--hs 1 with --negative 5: would train by both at once, which embedx does not; leave out one",
        ),
        ("x --hs yes", "--hs yes: must be 0 or 1; 1 is --objective hs"),
        ("x -cbow 2", "-cbow 2: must be 0 or 1"),
        ("x -cbow 1 --sg 0", "-cbow and --sg are two names of one setting"),
        ("x --maxn 6", "--maxn 6: the lengths of character n-grams are one option: type --subwords 3-6"),
        ("x --alpha 0.025", "--alpha 0.025: a rate of plain descent, which is not the optimizer here; type --optimizer sgd "),
        ("x -lr 0.1 --optimizer adagrad", "-lr 0.1: a rate of plain descent"),
        ("x --min-alpha 0.0001", "--min-alpha 0.0001: the learning rate falls to zero here; leave it out"),
    ],
)
def test_what_means_something_else_is_told(typed, message):
    with pytest.raises(EmbedxError, match=f"^{re.escape(message)}"):
        aliases.translated(typed.split(), KNOWN)


def test_the_value_of_an_option_is_the_last_that_was_given():
    words = ["x", "--dim", "3", "--config", "a", "--config=b", "--config"]
    assert [aliases.value_of(words[:n], "--config") for n in (0, 3, 5, 6)] == [None, None, "a", "b"]


def test_other_commands_take_no_names_of_training():
    assert aliases.translated(["x", "--sg", "1", "--top_k", "3"], {"--top-k": True}) == ["x", "--sg", "1", "--top-k", "3"]


def test_the_commands_take_them(asked):
    objective, typed = asked("train", "x", "--vector_size", "7", "--iter", "3", "--hs", "1", "--minCount", "2")
    assert (objective, typed) == ("hs", {"dim": 7, "epochs": 3, "min_count": 2})
    assert asked("train", "x", "--dim", "7", "--epochs", "3", "--objective", "hs", "--min-count", "2") == (objective, typed)
    objective, typed = asked("classify", "x", "-dim", "9", "-epoch", "4", "--workers", "1", "--objective", "ove", "-neg", "2")
    assert (objective, typed) == ("ove", {"hidden": 9, "epochs": 4, "threads": 1, "negatives": 2})
    _, typed = asked("train", "x", "--workers", "3")
    assert typed == {"threads": 3}
    _, typed = asked("train", "x", "--workers", "3", "--cluster", "auto")  # which is of ours then
    assert typed == {"workers": 3, "cluster": "auto"}
    with pytest.raises(EmbedxError, match="--size and --dim are two names"):
        application(["train"])(["train", "x", "--size", "3", "--dim", "3"], standalone_mode=False)


def test_every_name_leads_to_an_option_of_train_or_classify():
    from typer.main import get_command

    known = set()
    for name in ("train", "classify"):
        known |= {flag for each in get_command(application([name])).commands[name].params for flag in each.opts}
    assert {ours for each in aliases.NAMES.values() for ours in each} <= known


def test_the_page_for_those_who_come_from_other_programs_has_every_name():
    page = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text("utf-8")
    table = page.split("## Commands and names that can stay as they are")[1].split("\n#")[0]
    there = {aliases.form(name) for name in re.findall(r"`-*(\w[\w-]*)", table)}
    assert {aliases.form(name) for name in aliases.NAMES} <= there


CBOW = {  # word2vec.c's defaults
    "architecture": "cbow", "dim": 100, "window": 5, "sample": 1e-3, "negatives": 5, "epochs": 5, "min_count": 5
}  # fmt: skip
SKIPGRAM = CBOW | {"architecture": "skipgram"}


@pytest.mark.parametrize(
    ("line", "objective", "settings"),
    [
        ("-cbow 0", "ns", SKIPGRAM),
        (
            "-cbow 0 -size 200 -window 8 -negative 25 -hs 0 -sample 1e-4 -threads 20 -iter 15",  # demo-word.sh
            "ns",
            SKIPGRAM | {"dim": 200, "window": 8, "negatives": 25, "sample": 1e-4, "threads": 20, "epochs": 15},
        ),
        ("-hs 1 -negative 0", "hs", {name: value for name, value in CBOW.items() if name != "negatives"}),
        ("-alpha 0.05 -debug 2 -cbow 1", "ns", CBOW | {"optimizer": "sgd", "learning_rate": 0.05}),
        ("-min-count 1 -binary 1", "ns", CBOW | {"min_count": 1}),
        (
            "-read-vocab words.txt",
            "ns",
            {name: value for name, value in CBOW.items() if name != "min_count"} | {"vocab": "words.txt"},
        ),
    ],
)
def test_command_lines_of_word2vec(line, objective, settings):
    found = peers.word2vec(f"-train text8 -output vectors.bin {line}".split())
    assert (found.source, found.output, found.folder) == ("text8", Path("vectors.bin"), Path("vectors.bin.embedx"))
    assert (found.objective, found.typed) == (objective, settings)
    assert found.format == ("word2vec-binary" if "-binary 1" in line else "word2vec")


FASTTEXT = {"hidden": 100, "epochs": 5, "scaling": "l2"}


@pytest.mark.parametrize(
    ("line", "objective", "settings"),
    [
        ("", "softmax", FASTTEXT),
        ("-dim 10 -lr .1 -epoch 25 -wordNgrams 1 -minCount 1 -bucket 10 -thread 4 -verbose 0", "softmax",
         FASTTEXT | {"hidden": 10, "epochs": 25, "threads": 4}),
        ("-loss ns -neg 10", "ns", FASTTEXT | {"negatives": 10, "sampler": "unigram", "sampler_exponent": 0.5}),
        ("-loss hs -seed 3", "hs", FASTTEXT | {"hierarchy": "huffman", "seed": 3}),
        ("-loss ova", "ova", FASTTEXT),
        ("-loss one-vs-all -neg 7 -ws 3", "ova", FASTTEXT),
    ],
)  # fmt: skip
def test_command_lines_of_fasttext(line, objective, settings):
    found = peers.supervised(f"-input train.txt -output model {line}".split())
    assert (found.source, found.output, found.objective) == ("train.txt", Path("model"), objective)
    assert found.typed == settings


@pytest.mark.parametrize(
    ("read", "line", "message"),
    [
        (peers.word2vec, "-train x", "-output: name the file of the vectors; --help shows the options"),
        (peers.word2vec, "-output x", "-train: name the text"),
        (peers.word2vec, "-train x -output y -sise 3", "-sise: no option of word2vec.c that embedx knows; did you mean -size?"),
        (peers.word2vec, "-train x -output y -size", "-size: its value is missing"),
        (peers.word2vec, "-train x -output y -size ten", "-size ten: must be a whole number"),
        (peers.word2vec, "-train x -output y -size 3 -size 4", "-size: given twice; leave out one"),
        (peers.word2vec, "-train x -output y -cbow 2", "-cbow 2: must be 0 (skip-gram) or 1 (CBOW)"),
        (peers.word2vec, "-train x -output y -hs 1", "-hs 1 with -negative 5: would train by both at once"),
        (peers.word2vec, "-train x -output y -negative 0", "-hs 0 with -negative 0: there is nothing left to train by"),
        (peers.word2vec, "-train x -output y -classes 500", "-classes: vectors are not clustered; leave it out"),
        (peers.word2vec, "-train x -output y -read-vocab v -min-count 2", "-min-count with -read-vocab: the words of the file"),
        (peers.supervised, "-output x", "-input: name the labelled text"),
        (peers.supervised, "-input x -output y -loss softmx", "-loss softmx: did you mean softmax? choose one of softmax, ns"),
        (peers.supervised, "-input x -output y -wordNgrams 2", "-wordNgrams 2: classifiers have no n-grams here;"),
        (peers.supervised, "-input x -output y -lr 1.0 -dim 9",
         "-lr 1.0: the rate of fastText's own descent; leave it out for the default, which is chosen from the data, or type "
         "`embedx classify x --hidden 9 --learning-rate X`"),
        (peers.supervised, "-input x -output y -minCount 5", "-minCount 5: every word of the text is a feature; leave it out"),
        (peers.supervised, "-input x -output y -label #", "-label #: labels begin with __label__"),
        (peers.supervised, "-input x -output y -pretrainedVectors z", "-pretrainedVectors z: the hidden layer is learned"),
        (peers.supervised, "-input x -output y -autotune-validation z", "-autotune-validation: `embedx compare` tries"),
        (peers.supervised, "-input x -output y -epcoh 3", "-epcoh: no option of fasttext supervised that embedx knows"),
    ],
)  # fmt: skip
def test_what_other_programs_have_and_we_do_not_is_told(read, line, message):
    with pytest.raises(EmbedxError, match=f"^{re.escape(message)}"):
        read(line.split())


def test_the_commands_of_other_programs_ask_for_what_was_translated(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert asked("word2vec", *["-train", "x", "-output", "y", "-cbow", "0", "-size", "9"]) == ("ns", SKIPGRAM | {"dim": 9})
    assert asked("supervised", *["-input", "x", "-output", "y", "-dim", "9"]) == ("softmax", FASTTEXT | {"hidden": 9})


def test_word2vec_writes_what_word2vec_writes(two_topics, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = f"-train {two_topics} -output v.bin -size 6 -iter 1 -min-count 1 -threads 1 -binary 1 -save-vocab v.txt"
    run = application(["word2vec"])
    run(["word2vec", *line.split()], standalone_mode=False)
    told = capsys.readouterr()
    assert told.out.splitlines()[1:] == ["v.bin", "v.txt"]
    options = ["--dim", "6", "--epochs", "1", "--min-count", "1", "--threads", "1", "--sample", "1e-3", "--output", "same"]
    application(["train"])(["train", str(two_topics), "--architecture", "cbow", *options], standalone_mode=False)
    model, written = embedx.load("same"), embedx.load("v.bin")
    assert written.words == model.words
    np.testing.assert_array_equal(written.vectors, model.vectors)
    np.testing.assert_array_equal(embedx.load("v.bin.embedx").vectors, model.vectors)
    rows = [row.split() for row in (tmp_path / "v.txt").read_text().splitlines()]
    assert rows == [[word, str(count)] for word, count in zip(model.words, model.counts, strict=True)]
    for again, complaint in (
        (line, "v.bin: exists already; add --overwrite"),
        (line.replace("v.bin", "new.bin"), "v.txt: exists already; add --overwrite"),
    ):
        with pytest.raises(EmbedxError, match=complaint):
            run(["word2vec", *again.split()], standalone_mode=False)
    assert not list(tmp_path.glob("new.bin*"))  # nothing was trained
    run(["word2vec", *line.replace("-binary 1", "-binary 0").split(), "--overwrite"], standalone_mode=False)
    assert (tmp_path / "v.bin").read_text().startswith(f"{len(model.words)} 6\n{model.words[0]} ")


def test_supervised_learns_texts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text("__label__good a nice film\n__label__bad an awful film\n" * 100)
    line = "-input train.txt -output model -dim 4 -epoch 20 -thread 1"
    application(["supervised"])(["supervised", *line.split()], standalone_mode=False)
    capsys.readouterr()
    application(["eval"])(["eval", "model", "--test", "train.txt"], standalone_mode=False)
    assert "accuracy\t1.0000" in capsys.readouterr().out
