"""Options and command lines of word2vec.c, gensim and fastText: the settings that they are here,
and what nothing here stands for.
"""

import re
from pathlib import Path

import pytest

from embedx.cli import aliases
from embedx.cli.app import application
from embedx.errors import EmbedxError
from tests.support.commands import invoke as run
from tests.support.refusals import refused_on_command_line


@pytest.mark.parametrize(
    ("typed", "settings"),
    [
        # gensim's
        (
            (
                "train x --vector_size=5 --min_count 3 --negative 3 --ns-exponent 0.5"
                " --max-final-vocab 9"
            ),
            {"dim": 5, "min_count": 3, "negatives": 3, "sampler_exponent": 0.5, "max_vocab": 9},
        ),
        (
            "train x -dim 5 -minCount 3 -t 0 -ws 4 -neg 2 -epoch 2 -thread 1",  # fastText's
            {
                "dim": 5,
                "min_count": 3,
                "sample": 0,
                "window": 4,
                "negatives": 2,
                "epochs": 2,
                "threads": 1,
            },
        ),
        (
            "train x -size 5 -iter 2 -threads 2 -read-vocab w",
            {"dim": 5, "epochs": 2, "threads": 2, "vocab": "w"},
        ),
        ("classify x -dim 9 -epoch 4 -neg 2", {"hidden": 9, "epochs": 4, "negatives": 2}),
        ("train x --size 3 --dim 4 --lowercase", {"dim": 4, "lowercase": True}),  # the last counts
        ("train --dim 3 -oy -qv -- -size", {"dim": 3}),
        ("train x --workers 3 --cluster auto", {"workers": 3, "cluster": "auto"}),  # ours
    ],
)
def test_option_names_of_other_programs_are_translated(typed, settings, requested):
    assert requested(*typed.split())[1] == settings


@pytest.mark.parametrize("name", aliases.INSTEAD)
def test_an_option_that_no_command_has_gets_one_line(name):
    with pytest.raises(EmbedxError, match=f"^--{name}: {re.escape(aliases.INSTEAD[name])}$"):
        run("info", "x", f"--{name}", "1")


def test_every_name_leads_to_an_option_of_train_or_classify():
    from typer.main import get_command

    options = set()
    for name in ("train", "classify"):
        options |= {
            flag[2:]
            for parameter in get_command(application([name])).commands[name].params
            for flag in parameter.opts
        }
    assert {ours for names in aliases.OUR_NAMES.values() for ours in names} <= options


def test_the_page_for_those_who_come_from_other_programs_has_every_name():
    page = (Path(__file__).parent.parent / "docs" / "coming-from.md").read_text("utf-8")
    table = page.split("## Compatible commands and option names")[1].split("\n#")[0]
    documented = {aliases.with_dashes(name) for name in re.findall(r"`-*(\w[\w-]*)", table)}
    assert aliases.OUR_NAMES.keys() <= documented


CBOW = {  # word2vec.c's defaults
    "architecture": "cbow",
    "dim": 100,
    "window": 5,
    "sample": 1e-3,
    "negatives": 5,
    "epochs": 5,
    "min_count": 5,
}
SKIPGRAM = CBOW | {"architecture": "skipgram"}


@pytest.mark.parametrize(
    ("line", "objective", "settings"),
    [
        ("-cbow 0", "ns", SKIPGRAM),
        # demo-word.sh
        (
            "-cbow 0 -size 200 -window 8 -negative 25 -hs 0 -sample 1e-4 -threads 20 -iter 15",
            "ns",
            SKIPGRAM
            | {
                "dim": 200,
                "window": 8,
                "negatives": 25,
                "sample": 1e-4,
                "threads": 20,
                "epochs": 15,
            },
        ),
        (
            "-hs 1 -negative 0",
            "hs",
            {name: value for name, value in CBOW.items() if name != "negatives"},
        ),
        ("-alpha 0.05 -debug 2 -cbow 1", "ns", CBOW | {"optimizer": "sgd", "learning_rate": 0.05}),
        ("-min-count 1 -binary 1", "ns", CBOW | {"min_count": 1}),
        (
            "-read-vocab words.txt",
            "ns",
            {name: value for name, value in CBOW.items() if name != "min_count"}
            | {"vocab": "words.txt"},
        ),
    ],
)
def test_command_lines_of_word2vec_become_the_settings_of_embedx(
    line, objective, settings, requested
):
    assert requested("word2vec", *f"-train text8 -output vectors.bin {line}".split()) == (
        objective,
        settings,
    )


FASTTEXT = {
    "hidden": 100,
    "epochs": 5,
    "scaling": "l2",
    "word_ngrams": 1,
    "min_count": 1,
    "label_prefix": "__label__",
    "tokenizer": "whitespace",
    "lowercase": False,
    "calibration": 0.0,
}
N_GRAMS = FASTTEXT | {"min_ngram_count": 1, "buckets": 0}


@pytest.mark.parametrize(
    ("line", "objective", "settings"),
    [
        ("", "softmax", FASTTEXT),
        (
            "-dim 10 -epoch 25 -bucket 10 -thread 4 -verbose 0",
            "softmax",
            FASTTEXT | {"hidden": 10, "epochs": 25, "threads": 4},
        ),
        (
            "-loss ns -neg 10",
            "ns",
            FASTTEXT | {"negatives": 10, "sampler": "unigram", "sampler_exponent": 0.5},
        ),
        ("-loss hs -seed 3", "hs", FASTTEXT | {"hierarchy": "huffman", "seed": 3}),
        ("-loss ova", "ova", FASTTEXT),
        ("-loss one-vs-all -neg 7 -ws 3", "ova", FASTTEXT),
        # fastText's tutorial
        (
            "-lr 1.0 -epoch 25 -wordNgrams 2 -bucket 200000 -dim 50 -loss one-vs-all",
            "ova",
            N_GRAMS | {"epochs": 25, "word_ngrams": 2, "buckets": 200_000, "hidden": 50},
        ),
        (
            "-minn 2 -maxn 4 -minCount 3 -label # -t 0.1 -saveOutput -minCountLabel 0",
            "softmax",
            N_GRAMS | {"char_ngrams": "2-4", "min_count": 3, "label_prefix": "#"},
        ),
        (
            "-pretrainedVectors v.vec",
            "softmax",
            {name: value for name, value in FASTTEXT.items() if name != "hidden"}
            | {"pretrained": "v.vec"},
        ),
    ],
)
def test_command_lines_of_fasttext_become_the_settings_of_embedx(
    line, objective, settings, requested
):
    assert requested("supervised", *f"-input train.txt -output model {line}".split()) == (
        objective,
        settings,
    )


FASTTEXT_WORDS = {
    "architecture": "skipgram",
    "dim": 100,
    "window": 5,
    "epochs": 5,
    "min_count": 5,
    "sample": 1e-4,
    "negatives": 5,
    "subwords": "3-6",
    "buckets": 2_000_000,
    "sampler": "unigram",
    "sampler_exponent": 0.5,
}


@pytest.mark.parametrize(
    ("line", "objective", "settings"),
    [
        ("skipgram", "ns", FASTTEXT_WORDS),
        # fastText's tutorial
        (
            "skipgram -minn 2 -maxn 5 -dim 300 -epoch 1 -lr 0.5 -thread 4",
            "ns",
            FASTTEXT_WORDS
            | {"subwords": "2-5", "dim": 300, "epochs": 1, "threads": 4}
            | {"optimizer": "sgd", "learning_rate": 0.5},
        ),
        (
            "cbow -ws 3 -t 0.1 -wordNgrams 2 -saveOutput 1 -verbose 0 -label x -lrUpdateRate 10",
            "ns",
            FASTTEXT_WORDS | {"architecture": "cbow", "window": 3, "sample": 0.1},
        ),
        (
            "skipgram -maxn 0 -saveOutput -loss hs -minCount 1",
            "hs",
            {
                "architecture": "skipgram",
                "dim": 100,
                "window": 5,
                "epochs": 5,
                "min_count": 1,
                "sample": 1e-4,
            },
        ),
    ],
)
def test_command_lines_of_fasttext_about_words(line, objective, settings, requested):
    command, *options = line.split()
    words = [command, "-input", "text8", "-output", "model", *options]
    assert requested(*words) == (objective, settings)


WORD2VEC = "word2vec -train x -output y"
SUPERVISED = "supervised -input x -output y"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word2vec -train x", "Missing option '--output'"),
        (f"{WORD2VEC} -sise 3", "No such option: --sise; did you mean --size? see --help"),
        (f"{WORD2VEC} -size", "Option '--size' requires an argument; see --help"),
        (f"{WORD2VEC} -size ten", "Invalid value for '--size': "),
        (f"{WORD2VEC} -cbow 2", "Invalid value for '--cbow': "),
        (f"{WORD2VEC} -hs 1", "--hs 1 with --negative 5; "),
        (f"{WORD2VEC} -negative 0", "--hs 0 with --negative 0; "),
        (f"{WORD2VEC} -read-vocab v -min-count 2", "--min-count does not apply with --read-vocab"),
        (f"{SUPERVISED} -minCountLabel 2", "--min-count-label 2: "),
        (f"{SUPERVISED} -loss softmx", "--loss softmx: did you mean softmax?"),
        (
            f"{SUPERVISED} -autotune-validation y",
            "--autotune-validation: write embedx compare TRAIN --objectives softmax,ova",
        ),
        ("train x -wordNgrams 2", "--word-ngrams: an option of `embedx classify`;"),
        ("train x -cbow 0", "--cbow: write --architecture skipgram or --architecture cbow"),
        ("compare x --objectives ns --workers 2", "--workers: write --threads"),
        ("distance v.bin", "no command distance: `embedx nn MODEL WORD` lists"),
        ("quantize -input x", "no command quantize: `embedx export MODEL FILE.npz --dtype int8`"),
        ("dump x input", "dump input: "),
        ("nn x --dim 3", "No such option: --dim; `embedx train` takes it"),
        ("nn x -q", "No such option: -q; `embedx train` takes it"),
    ],
)
def test_unsupported_options_of_other_programs_get_one_line(line, message):
    with refused_on_command_line(f"^{re.escape(message)}"):
        run(*line.split())
