"""Dumps become the prose of their articles."""

import bz2
import os
import random
import re
from collections import Counter
from pathlib import Path

import mwparserfromhell
import pytest

from embedx.text import wikipedia
from embedx.text.encode import encode_sources
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.text.wikipedia import DumpError, _pages, paragraphs, plain_text
from tests.support.linear_time import MANY, bound, check_linear, time_limit
from tests.support.needs import needs_data, needs_gensim
from tests.support.refusals import refused_data

PAGES = """<?xml version="1.0"?>
<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10">
  <siteinfo><namespaces>
    <namespace key="0" /><namespace key="1">Talk</namespace><namespace key="6">Datei</namespace>
  </namespaces></siteinfo>
  <page><title>Tree</title><ns>0</ns><revision>
    <comment>&lt;text&gt;not this&lt;/text&gt;</comment>
    <text xml:space="preserve">A '''tree''' is a [[plant]]&lt;ref&gt;Source&lt;/ref&gt;.

[[Datei:Tree.jpg|thumb|A [[big]] tree]]
Élan &amp;amp; vigour.</text></revision></page>
  <page><title>Trees</title><ns>0</ns><redirect title="Tree" />
    <revision><text>#REDIRECT [[Tree]] gone</text></revision></page>
  <page><title>Talk:Tree</title><ns>1</ns><revision><text>Talk is gone</text></revision></page>
  <page><title>Talk:Old</title><revision><text>Talk without ns is gone</text></revision></page>
  <page><title>Arbre</title><revision><text>#пренасочване [[Tree]]</text></revision></page>
  <page><title>Part 2: more</title><revision><text>Second article</text></revision></page>
</mediawiki>
"""
PROSE = "A tree is a plant.\nÉlan & vigour.\nSecond article\n"


@pytest.mark.parametrize("block_bytes", [1, 7, 1 << 18])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_articles_but_no_redirects_or_talk(block_bytes, encoding):
    data = PAGES.encode(encoding)
    blocks = (
        block
        for i in range(0, len(data), block_bytes)
        for block in (b"", data[i : i + block_bytes])
    )
    assert b"".join(paragraphs(blocks)).decode() == PROSE


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
def test_a_dump_is_known_by_its_content(tmp_path, prefix):
    (tmp_path / "anything.txt").write_text(prefix + PAGES, "utf-8")
    encoded = encode_sources(
        find_sources([str(tmp_path / "anything.txt")]),
        TextSettings(tokenizer="words"),
        cache_dir=tmp_path / "cache",
    )
    assert encoded.words[:5] == ["A", "tree", "is", "a", "plant"]
    assert encoded.tokens.tolist().count(-1) == 2


def test_a_file_named_like_a_dump_must_be_one(tmp_path):
    path = tmp_path / "xywiki-latest-pages-articles.xml.txt"
    path.write_text("plain text")
    with refused_data(path.name):
        encode_sources(find_sources([str(path)]), TextSettings(), cache_dir=tmp_path / "cache")


def test_a_dump_that_ends_too_early_is_an_error_unless_the_recipe_says_so(tmp_path):
    start = PAGES[: PAGES.index("Second")]
    path = tmp_path / "xywiki-latest-pages-articles.xml"
    path.write_text(start, "utf-8")
    with refused_data(path.name, quoting="line 17"):
        encode_sources(find_sources([str(path)]), TextSettings(), cache_dir=tmp_path / "cache")
    assert (
        b"".join(paragraphs([start.encode()], cut_off=True)).decode()
        == "A tree is a plant.\nÉlan & vigour.\n"
    )
    with pytest.raises(DumpError, match="mismatched tag"):
        list(paragraphs([start.encode(), b"</page>" * 9, PAGES.encode()], cut_off=True))


@pytest.mark.parametrize(
    ("wikitext", "prose"),
    [
        ("'''Bold''', ''italic'' and '''''both''''' words", "Bold, italic and both words"),
        ("see [[tree]], [[tree|trees]]s and [[a|b|c]]", "see tree, treess and c"),
        (
            (
                "a [http://x.org/a?b=c label here], [//x.org], [mailto:a@b mail] and"
                " http://bare.org/x_(y) end"
            ),
            "a label here, , mail and end",
        ),
        ("{{Infobox\n| a = {{nested|{{deep}}}}\n|}}Text{{cite}} goes on", "Text goes on"),
        ("before\n :{| class=x\n| cell\n{|\n| inner\n|}\n|}\nafter", "before\nafter"),
        ("unbalanced {{ stays readable [[ so", "unbalanced stays readable so"),
        ("closed {{x}} then }} open {{ {{y}} end", "closed then open end"),
        ("{| \n| a table without end\n! head\nText", "Text"),
        ("[[File:A.jpg|thumb|with [[link]] and [http://x y] and [sic]]] text", "text"),
        (
            (
                "[[Category:Trees]] [[:Category:Trees|kept]] [[de:Baum]] [[wikt:tree|tree]]"
                " [[Картинка:Tree.jpg|мини|текст]]"
            ),
            "kept tree",
        ),
        (
            (
                'text<ref name=a/> and<ref name="b/c">{{cite}} hidden</ref> more<!-- no\nno -->'
                " end<!-- open"
            ),
            "text and more end",
        ),
        (
            "<nowiki>[[gone]]</nowiki>formula <math>x < y</math> H<sub>2</sub>O<br/>next",
            "formula H2O\nnext",
        ),
        ("<gallery>\nFile:A.jpg|x\n</gallery><code>gone</code>stays", "stays"),
        (
            "== Heading ==\n=== Sub [[link]] ===\n* item\n## two\n: indented\n----\n__NOTOC__\n",
            "Heading\nSub link\nitem\ntwo\nindented",
        ),
        ("5&nbsp;km &ndash; &lt;b&gt; R&amp;D (, ) x", "5 km \u2013 <b> R&D x"),
        ("One\n\n\n.\n \nTwo", "One\nTwo"),
        ("=Part=\n= Part ==\n==\n=== a\n==a=", "Part\nPart =\n=== a\n=a"),
        ("[mailto:a [mailto:b] [mailto:c[d e] [mailto:f\nend", "[mailto:a e [mailto:f\nend"),
        ("letters &#65;&#" + "0" * 5000 + ";&#" + "9" * 5000 + " end", "letters A\ufffd\ufffd end"),
        ("[[a|" * 30 + "deep" + "]]" * 30 + " end", "deep end"),
    ],
)
def test_wikitext_becomes_prose(wikitext, prose):
    assert plain_text(wikitext) == prose + "\n"


@pytest.mark.parametrize(
    ("markup", "end"),
    [
        *(
            (markup, "")
            for markup in (
                "<ref>",
                "[[",
                "{{",
                "{|\n",
                "[http://x ",
                "<!--",
                "[[a|",
                '<ref name="',
                "''",
                "(, ",
            )
        ),
        *(
            (markup, "")
            for markup in (
                "[mailto:",
                "[//",
                "=",
                "__a",
                "&#1",
                "</ref ",
                "[",
                "]]",
                "http://",
                "[[a.jpg|",
                "a",
            )
        ),
        ("[[a|", "]]"),
        ("<ref>", "</ref>"),
        ("{{", "}}"),
    ],
)
def test_markup_that_never_ends_takes_no_longer_than_other_text(markup, end, monkeypatch):

    def work(n):
        _, copied = bound(
            lambda: plain_text(markup * n + end * n),
            "plain_text",
            "shown",
            "without_nested",
            "_plain_line",
        )
        return copied

    # fewer than those below, as in a text that is longer than a test can be
    monkeypatch.setattr(wikipedia, "MAX_NESTED", 10)
    check_linear(work, 60)
    with time_limit(5.0):
        plain_text(markup * MANY + end * MANY)


@needs_gensim
def test_the_sample_leaves_no_markup(tmp_path):
    encoded = encode_sources(
        find_sources(["wikipedia-sample"]), TextSettings(lowercase=True), cache_dir=tmp_path
    )
    assert encoded.n_tokens > 400_000
    assert encoded.words[:6] == ["anarchism", "is", "a", "political", "philosophy", "that"]
    counts = dict(zip(encoded.words, encoded.counts.tolist(), strict=True))
    assert counts["philosophy"] > 100
    residue = [
        word
        for word in counts
        if any(mark in word for mark in ("{{", "}}", "[[", "]]", "</", "''", "&nbsp", "http:"))
    ]
    assert residue == []


# ---- five articles, beside a parser of wikitext, mwparserfromhell

DUMP = "corpora/wikidump/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
WORD = re.compile(r"[^\W_]+")
# What is left out as docs/words.md tells: captions and categories, tables, references and what else
# holds no prose.
HIDDEN_LINK = re.compile(r"\s*(?:file|image|category|[a-z][a-z-]{1,11})\s*:", re.IGNORECASE)
HIDDEN_TAGS = {
    "table",
    "ref",
    "references",
    "gallery",
    "math",
    "timeline",
    "source",
    "code",
    "nowiki",
    "imagemap",
    "score",
    "syntaxhighlight",
}


@pytest.fixture(scope="module")
def pages():
    """Wikitext of articles of some length, each with its namespaces."""
    xml = bz2.decompress((Path(os.environ["EMBEDX_DATA"]) / DUMP).read_bytes())
    long = [page for page in _pages([xml], False) if len(page[0]) > 2000]
    return random.Random(0).sample(long, 5)


def by_oracle(wikitext):
    code = mwparserfromhell.parse(wikitext)
    _leave_out(code)
    return code.strip_code()


def _leave_out(code):
    for node in list(code.nodes):
        kind = type(node).__name__
        is_hidden_link = kind == "Wikilink" and HIDDEN_LINK.match(str(node.title))
        is_hidden_tag = kind == "Tag" and str(node.tag).lower() in HIDDEN_TAGS
        if kind in ("Template", "Comment") or is_hidden_link or is_hidden_tag:
            code.remove(node)
        elif kind == "Tag" and node.contents is not None:
            _leave_out(node.contents)


@needs_data
def test_the_words_of_the_sample_are_those_of_the_oracle(pages):
    counts = [Counter(WORD.findall(plain_text(*page))) for page in pages]
    oracle = [Counter(WORD.findall(by_oracle(page[0]))) for page in pages]
    shared = sum((mine & its).total() for mine, its in zip(counts, oracle, strict=True))
    assert shared >= 0.999 * sum(words.total() for words in counts)
    assert shared >= 0.99 * sum(words.total() for words in oracle)  # which leaves some tables in
