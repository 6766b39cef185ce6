"""Text that was not divided into words, which training says: that of scripts without spaces
between words, and that with punctuation at its words.
"""

import contextlib

import pytest

from embedx.errors import EmbedxError
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from tests.support import word_training
from tests.support.notes import Notes, lines_with

OPTIONS = {"dim": 2, "epochs": 1, "threads": 1, "min_count": 1, "sample": 0}


def notes_on(text, tmp_path, **options):
    """The notes on the run of a text, before it is trained."""
    file = tmp_path / "text.txt"
    file.write_text(text, "utf-8")
    notes = Notes()
    config = configure("ns", OPTIONS | options)
    with (
        read_corpora(str(file), config, notes, tmp_path / "cache") as corpus,
        contextlib.suppress(EmbedxError),  # a line is one word
    ):
        WordVectorsRun.resolved(corpus, config, notes)
    return notes.notes


def advice_on(text, tmp_path, **options):
    """The notes that are about segmentation."""
    return [note for note in notes_on(text, tmp_path, **options) if "segment it first" in note]


UNSEGMENTED = {
    "jieba": "我今天在图书馆看了一本书、很有意思。\n",
    "MeCab": "吾輩は猫である。名前はまだ無い。\n",
    "PyThaiNLP": "วันนี้อากาศดีมากเราไปเที่ยว\n",
    "LaoNLP": "ຂ້ອຍມັກອ່ານປື້ມ\n",
    "khmer-nltk": "ខ្ញុំចូលចិត្តអាន\n",
    "pyidaungsu": "ကျွန်တော်စာဖတ်ချင်\n",
}


@pytest.mark.parametrize(("segmenter", "text"), UNSEGMENTED.items(), ids=list(UNSEGMENTED))
def test_unsegmented_text_gets_a_line_that_names_a_segmenter(segmenter, text, tmp_path):
    (note,) = advice_on(text * 10, tmp_path, tokenizer="whitespace")
    assert segmenter in note
    assert "--subwords" in note
    assert advice_on(text * 10, tmp_path, min_count=1000) == [note]
    assert not advice_on(text * 10, tmp_path, subwords="1-3", buckets=100)


@pytest.mark.parametrize(
    "text",
    [
        "我 今天 在 图书馆 看 了 一 本 书\n",
        "วันนี้ อากาศ ดี มาก\n",
        "an English text that quotes 我今天在图书馆 once\n",
        "한국어는 띄어쓰기를 합니다\n",
    ],
)
def test_segmented_text_gets_no_note_about_a_segmenter(text, tmp_path):
    assert not advice_on(text * 10, tmp_path)


RAW = 'The king, who was old, spoke. Nobody listened; everybody "slept".\n'


def advice_on_punctuation(text, tmp_path, **options):
    """The notes that are about punctuation at words."""
    return [note for note in notes_on(text, tmp_path, **options) if "punctuation" in note]


def test_training_offers_to_tokenise_raw_text(tmp_path):
    (note,) = advice_on_punctuation(RAW * 10, tmp_path)
    assert "punctuation ends 50% of the tokens" in note
    assert "--tokenizer words --lowercase" in note


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (RAW, {"tokenizer": "words"}),
        ("The king , who was old , spoke . Nobody listened ; everybody slept .\n", {}),
        ("milk bread 12:345 eggs\n", {}),
    ],
)
def test_tokenised_text_gets_no_note_about_the_tokenizer(text, options, tmp_path):
    assert not advice_on_punctuation(text * 10, tmp_path, **options)


def warnings_of_training(text, tmp_path, **options):
    """The warnings of a run on a text."""
    file = tmp_path / "text.txt"
    file.write_text(text)
    notes = Notes()
    config = configure("ns", OPTIONS | options)
    word_training.train(str(file), config, progress=notes, cache_dir=tmp_path / "cache")
    return notes.warnings


def test_a_loss_above_that_of_frequencies_is_warned_of_with_the_likely_remedy(tmp_path):
    (raw,) = warnings_of_training(RAW * 10, tmp_path)
    assert lines_with(raw, "word frequencies", "--tokenizer words --lowercase", "--epochs")
    (other,) = warnings_of_training("the old king spoke to nobody at all\n" * 10, tmp_path)
    assert "--epochs" in other
    assert "--tokenizer" not in other


def test_a_loss_below_that_of_frequencies_is_not_warned_of(tmp_path):
    text = "red green blue red green blue\n" * 50 + "one two three one two three\n" * 50
    assert not warnings_of_training(text, tmp_path, epochs=40, dim=8)
