"""Text of scripts without spaces between words: training says that it was not segmented."""

import contextlib

import pytest

from embedx.errors import EmbedxError
from embedx.skipgram import task as skipgram
from embedx.skipgram.configuration import configure
from tests.support.notes import Notes

OPTIONS = {"dim": 2, "epochs": 1, "threads": 1, "min_count": 1, "sample": 0}


def advice_on(text, tmp_path, **options):
    """The notes on training that are about segmentation."""
    file = tmp_path / "text.txt"
    file.write_text(text, "utf-8")
    notes = Notes()
    config = configure("ns", OPTIONS | options)
    with (
        skipgram.read(str(file), config, notes, tmp_path / "cache") as corpus,
        contextlib.suppress(EmbedxError),  # a line is one word
    ):
        skipgram.Run.prepared(corpus, config, notes)
    return [note for note in notes.notes if "segment it first" in note]


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
def test_other_text_gets_none(text, tmp_path):
    assert not advice_on(text * 10, tmp_path)
