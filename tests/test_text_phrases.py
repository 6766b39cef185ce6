"""Collocations are those of gensim's `Phrases`, scores and joined text included, however little
memory there is.
"""

import json
import random

import numpy as np
import pytest
from gensim.models.phrases import Phrases as GensimPhrases

import embedx
from embedx.runtime.progress import SILENT
from embedx.text import cache, collocations, counting, phrases
from embedx.text.encode import encode
from embedx.text.phrases import phrases_of
from embedx.text.sentences import encode_sentences
from embedx.text.settings import PhraseSettings, TextSettings
from tests.support.commands import invoke
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data

CONNECTORS = "of,the"
WORDS = ["bank", "of", "america", "the", "new", "york", "city", "times", *"abcdefghijklmnop"]
CASES = {
    "one pass": {},
    "a higher threshold": {"phrase_threshold": 0.45},
    "npmi": {"phrase_scoring": "npmi", "phrase_threshold": 0.2},
    "connector words": {"connector_words": CONNECTORS},
    "three passes": {"phrases": 3, "connector_words": CONNECTORS},
    "two passes of npmi": {
        "phrases": 2,
        "phrase_scoring": "npmi",
        "phrase_threshold": 0.1,
        "phrase_min_count": 2,
    },
    "little memory and small chunks": {
        "phrases": 2,
        "connector_words": CONNECTORS,
        "phrase_memory": 4e-6,
    },
}


def a_text(n=1500, seed=0):
    """Sentences with expressions in them."""
    rng = random.Random(seed)
    expressions = [
        "bank of the america",
        "bank of america",
        "new york",
        "new york city",
        "york city",
        "a b c",
        "b c d",
        "a of c",
    ]
    sentences = []
    for _ in range(n):
        words = []
        while len(words) < rng.randint(1, 12):
            words += rng.choice(expressions).split() if rng.random() < 0.4 else [rng.choice(WORDS)]
        sentences.append(words)
    return sentences


SENTENCES = a_text()


def settings(**options):
    return PhraseSettings(
        **{"phrases": 1, "phrase_threshold": 0.3, "phrase_min_count": 3, **options}
    )


def by_gensim(sentences, phrase_settings):
    """The passes of gensim: its models, and the text after each."""
    models, texts = [], []
    for _ in range(phrase_settings.phrases):
        scoring = {"word2phrase": "default"}.get(
            phrase_settings.phrase_scoring, phrase_settings.phrase_scoring
        )
        model = GensimPhrases(
            sentences,
            min_count=phrase_settings.phrase_min_count,
            threshold=phrase_settings.threshold,
            scoring=scoring,
            connector_words=frozenset(phrase_settings.connectors),
        )
        sentences = [model[sentence] for sentence in sentences]
        models.append(model)
        texts.append(sentences)
    return models, texts


def joined(sentences, home, phrase_settings, progress=SILENT):
    return encode(sentences, TextSettings(), progress, home, phrase_settings)


def as_sentences(corpus):
    words = [corpus.words[k] if k >= 0 else "\n" for k in corpus.tokens]
    return [sentence.split() for sentence in " ".join(words).split("\n")]


@pytest.mark.parametrize("case", CASES)
def test_collocations_scores_and_joined_text_are_gensims(case, tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "MIN_ENTRIES_PER_RANGE", 1000)
    if "small chunks" in case:
        monkeypatch.setattr(phrases, "CHUNK", 3)
        monkeypatch.setattr(collocations, "CHUNK", 3)
    phrase_settings = settings(**CASES[case])
    models, texts = by_gensim(SENTENCES, phrase_settings)
    with joined(SENTENCES, tmp_path, phrase_settings) as corpus:
        assert as_sentences(corpus) == texts[-1]
        phrase_list = phrases_of(corpus)
        with encode_sentences(texts[-1], cache_dir=tmp_path) as expected:
            assert [*corpus.words] == [*expected.words]
            np.testing.assert_array_equal(corpus.tokens, expected.tokens)
            np.testing.assert_array_equal(corpus.counts, expected.counts)
            assert corpus.n_tokens == expected.n_tokens
    for k, model in enumerate(models):
        by_words = {
            collocation.words: (collocation.times, collocation.score)
            for collocation in phrase_list.passes[k]
        }
        scored = {}
        for a, *between, b in by_words:
            name, score = model.score_candidate(a, b, between)
            scored[a, *between, b] = (model.vocab[name], pytest.approx(score, rel=1e-12))
        assert by_words == scored
        if k == 0:  # gensim's list takes words with `_` apart
            scores_by_name = {
                collocation.joined: collocation.score for collocation in phrase_list.passes[k]
            }
            assert scores_by_name == pytest.approx(model.export_phrases())
        assert len(by_words) >= 3 - k
        scores = [collocation.score for collocation in phrase_list.passes[k]]
        assert scores == sorted(scores, reverse=True)


def test_many_different_connector_words_have_many_sequences(tmp_path, monkeypatch):
    rng = random.Random(1)
    connectors = [f"c{k}" for k in range(40)]
    sentences = [["x", *rng.choices(connectors, k=2), "y"] for _ in range(3000)]
    phrase_settings = settings(
        connector_words=" ".join(connectors), phrase_min_count=1, phrase_threshold=1e-6
    )
    (model,), (text,) = by_gensim(sentences, phrase_settings)
    with joined(sentences, tmp_path, phrase_settings) as corpus:
        assert as_sentences(corpus) == text
        assert len(phrases_of(corpus)) == len(model.export_phrases()) > 600
    monkeypatch.setattr(collocations, "MAX_SEQUENCE_BITS", 6)  # one connector word
    with joined([*sentences, *[["x", "c1", "y"]] * 9], tmp_path, phrase_settings) as corpus:
        assert "x_c1_y" in {collocation.joined for collocation in phrases_of(corpus).passes[0]}
        assert len(phrases_of(corpus)) < 50


def test_a_text_without_a_repeated_pair(tmp_path):
    sentences = [[f"w{k}" for k in range(3000)], *[["x", "y"]] * 3]
    phrase_settings = settings(phrase_min_count=1)
    progress = Notes()
    (model,), (text,) = by_gensim(sentences, phrase_settings)
    with joined(sentences, tmp_path, phrase_settings, progress) as corpus:
        assert as_sentences(corpus) == text
        assert {
            collocation.joined: collocation.score for collocation in phrases_of(corpus).passes[0]
        } == model.export_phrases()
    assert lines_with(progress.notes, "3,000 different pairs")


def test_pairs_with_the_same_joined_text_become_the_same_word(tmp_path):
    sentences = [["a", "b_c_d"], ["a_b", "c_d"], ["a_b_c", "d"]] * 4
    with joined(sentences, tmp_path, settings(phrase_threshold=0.01)) as corpus:
        assert as_sentences(corpus) == [["a_b_c_d"]] * 12
        assert {collocation.words for collocation in phrases_of(corpus).passes[0]} == set(
            map(tuple, sentences)
        )


def test_a_joined_corpus_is_kept_under_a_key_of_its_own(write, tmp_path):
    text = write("\n".join(map(" ".join, SENTENCES)))
    home = tmp_path / "cache"
    progress = Notes()
    first, again = (joined(text, home, settings(), progress) for _ in range(2))
    assert lines_with(progress.notes[-1], "collocations", "token cache")
    assert first.key == again.key
    assert phrases_of(first) == phrases_of(again)
    other = joined(text, home, settings(phrase_min_count=4))
    plain = joined(text, home, None)
    assert phrases_of(plain) is None
    assert {entry["key"] for entry in cache.list_caches(home)} == {first.key, other.key, plain.key}
    assert len({first.key, other.key, plain.key}) == 3
    np.testing.assert_array_equal(joined(text, home, phrases_of(first)).tokens, first.tokens)


def test_a_model_keeps_its_phrases_and_joins_new_text_by_them(write, tmp_path):
    text = write("\n".join(map(" ".join, SENTENCES)))
    settings_of_run = {
        "dim": 4,
        "epochs": 1,
        "threads": 1,
        "min_count": 1,
        "sample": 0,
        "cache_dir": tmp_path / "cache",
    }
    fitted = embedx.SkipGram(
        phrases=2, phrase_threshold=0.3, connector_words=CONNECTORS, heldout=0.3, **settings_of_run
    ).fit(text)
    folder = fitted.save(tmp_path / "model")
    loaded = embedx.load(folder)
    assert loaded.phrases.identity() == fitted.model.phrases.identity()
    assert "bank_of_america" in loaded
    assert loaded.settings["phrases"] == 2
    assert loaded.facts["heldout"]["n_pairs"] > 100
    from embedx.evaluation.held_out import pairs_of

    other = a_text(300, seed=5)
    joined, _ = pairs_of(other, loaded)
    phrases = {loaded.words[k] for k in joined.inputs}
    assert {"bank_of_america", "new_york"} <= phrases
    (folder / "phrases1.tsv").write_text((folder / "phrases1.tsv").read_text().replace(" ", "", 1))
    with refused_data("model/phrases1.tsv"):
        embedx.load(folder)


@pytest.mark.parametrize(
    ("options", "other", "value"),
    [
        ({"phrase_threshold": 2.0}, "phrases", None),
        ({"phrases": 1, "phrase_threshold": 0.0}, "phrase_scoring", 0.0),
        (
            {"phrases": 1, "phrase_scoring": "npmi", "phrase_threshold": 2.0},
            "phrase_scoring",
            2.0,
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, other, value):
    with refused("phrase_threshold", other, value=value):
        embedx.SkipGram(**options)


def test_words_with_white_space_are_refused(tmp_path):
    with refused("phrases", quoting="'new york'"):
        joined([["in", "new york"]], tmp_path, settings())


def test_the_command_lists_them(write, capsys, tmp_path):

    text = write("\n".join(map(" ".join, SENTENCES)))
    typed = [
        "phrases",
        text,
        "--phrase-threshold=0.3",
        "--set=connector-words=of the",
        "--cache-dir",
        f"{tmp_path}/cache",
    ]
    invoke(*typed)
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    (model,), _ = by_gensim(SENTENCES, settings(phrase_min_count=5, connector_words=CONNECTORS))
    phrases = {phrase: int(count) for phrase, count, *_ in rows}
    assert "bank_of_america" in phrases
    assert phrases["new_york"] == model.vocab["new_york"]
    assert rows == sorted(rows, key=lambda row: -float(row[2]))
    invoke(*typed, "--json", "--top-k", "2")
    result = json.loads(capsys.readouterr().out)
    assert [entry["phrase"] for entry in result] == [row[0] for row in rows[:2]]
    assert result[0].keys() == {"phrase", "words", "count", "score", "pass"}
