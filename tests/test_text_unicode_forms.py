"""Text in a normalisation form of Unicode: in training, and in the queries of a model."""

import unicodedata

import numpy as np
import pytest

import embedx
from embedx.errors import EmbedxError
from embedx.evaluation.word_sets import Analogies, SimilarityPairs
from embedx.evaluation.words import score_items
from embedx.text.unicode_forms import MAX_WAITING_BYTES, normalized_blocks
from embedx.vectors.neighbours import NeighbourSearch

COMPOSED = "caf\u00e9"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
TEXT = f"{COMPOSED} au lait {DECOMPOSED} au \ufb01ne\n" * 20
FEW = {"dim": 4, "epochs": 1, "threads": 1, "min_count": 1, "sample": 0}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_text_is_the_same_however_it_is_cut(size, form):
    marks = "e\u0302\u0301 \u1112\u1161\u11ab \uff21\u3000\u00a8 \u4e2d\u6587 e\u0301 x\n\u0301"
    text = marks * 3
    data = text.encode()
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    expected = unicodedata.normalize(form.upper(), text).encode()
    assert b"".join(normalized_blocks(blocks, form)) == expected


def test_bytes_that_are_not_utf8_stay():
    data = b"caf\xe9 \xff\xfe e\xcc\x81\xcc"
    assert b"".join(normalized_blocks([data], "nfc")) == b"caf\xe9 \xff\xfe \xc3\xa9\xcc"


def test_text_without_ascii_does_not_wait_for_ever():
    block = "\u4e2d".encode() * 100_000
    n_blocks = 2 * MAX_WAITING_BYTES // len(block)
    pieces = list(normalized_blocks([block] * n_blocks, "nfc"))
    assert len(pieces) > 1
    assert b"".join(pieces) == block * n_blocks


@pytest.mark.parametrize("is_file", [True, False])
def test_a_model_finds_words_in_either_form(tmp_path, is_file):
    text = [line.split() for line in TEXT.splitlines()]
    if is_file:
        text = tmp_path / "text.txt"
        text.write_text(TEXT, "utf-8")
    trained = embedx.SkipGram("ns", normalize="nfc", cache_dir=tmp_path / "c", **FEW).fit(text)
    model = embedx.load(trained.save(tmp_path / "model"))
    assert sorted(model.words) == ["au", COMPOSED, "lait", "\ufb01ne"]
    assert model.counts[model.index(COMPOSED)] == 40
    assert DECOMPOSED in model
    assert (model[DECOMPOSED] == model[COMPOSED]).all()
    assert model.most_similar(DECOMPOSED) == model.most_similar(COMPOSED)
    search = NeighbourSearch(model, top_k=3, restrict_vocab=None, excluded=[])
    assert COMPOSED not in dict(search.neighbours(DECOMPOSED))
    search = search._replace(excluded=[DECOMPOSED])
    assert dict(search.neighbours("au")).keys() == {"lait", "\ufb01ne"}
    more = embedx.SkipGram("ns", start=str(tmp_path / "model"), **FEW).fit(text)
    assert sorted(more.model.words) == sorted(model.words)


def test_compatible_characters_are_one_word_by_nfkc_and_two_spellings_without(tmp_path):
    text = [["\ufb01ne", "fine", "\uff21"]] * 20
    model = embedx.SkipGram("ns", normalize="nfkc", **FEW).fit(text).model
    assert sorted(model.words) == ["A", "fine"]
    assert "\ufb01ne" in model
    assert len(embedx.SkipGram("ns", **FEW).fit(text).model) == 3
    with pytest.raises(EmbedxError):
        embedx.SkipGram("ns", normalize="nfx", **FEW)


def test_subwords_of_an_unknown_word_are_those_of_its_form(tmp_path):
    options = FEW | {"subwords": "1-3", "buckets": 1000, "normalize": "nfc"}
    model = embedx.SkipGram("ns", **options).fit([[COMPOSED, "lait"]] * 20).model
    unseen = COMPOSED + "s"
    assert (model[unicodedata.normalize("NFD", unseen)] == model[unseen]).all()


def test_lists_and_test_sets_of_words_are_in_the_form_of_the_text(tmp_path):
    text = [[COMPOSED, "bar", "tee", "rum"]] * 20
    (tmp_path / "words.txt").write_text(f"{DECOMPOSED}\nbar\ntee\nrum\n")
    model = embedx.train(
        text, vocab=tmp_path / "words.txt", normalize="nfc", sample=0, dim=2, epochs=1, threads=1
    )
    assert COMPOSED in model.words
    questions = Analogies("all", ["all"] * 4, [(DECOMPOSED, "bar", "tee", "rum")] * 4)
    assert score_items(model, [questions])[0].used.all()
    pairs = SimilarityPairs("pairs", [(DECOMPOSED, "bar")], np.array([1.0]))
    assert score_items(model, [pairs])[0].used.all()
