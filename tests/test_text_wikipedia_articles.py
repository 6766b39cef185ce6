"""Twenty articles as plain text, beside a parser of wikitext: mwparserfromhell, the oracle, and gensim's filter."""

import bz2
import os
import random
import re
from collections import Counter
from pathlib import Path

import mwparserfromhell
import pytest
from needs import needs_data, needs_gensim

from embedx.text.wikipedia import _pages, plain_text

pytestmark = needs_data

DUMP = "corpora/wikidump/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
# What markup looks like in a text from which it was not removed.
RESIDUES = re.compile(
    r"""
    \[\[|\]\] | \{\{|\}\} | \{\||\|\}|\|\||^[|!] | </?[a-zA-Z][^<>\n]{0,200}> | <!--|--> | ''+ | &\#?\w{1,10};
    | ^=+|=+$ | https?:// | __[A-Z]+__ | \w\|\w | \b(?:style|class|align|width|colspan|rowspan)\s*=\s*["\w]
    | \b(?:thumb|left|right|\d+px)\b\| | ^[*\#:;]
    """,
    re.VERBOSE | re.MULTILINE,
)
WORD = re.compile(r"[^\W_]+")
# What is left out as docs/words.md tells: captions and categories, tables, references and what else holds no prose.
HIDDEN_LINK = re.compile(r"\s*(?:file|image|category|[a-z][a-z-]{1,11})\s*:", re.IGNORECASE)
HIDDEN_TAGS = {
    "table", "ref", "references", "gallery", "math", "timeline", "source", "code", "nowiki", "imagemap", "score",
    "syntaxhighlight",
}  # fmt: skip


@pytest.fixture(scope="module")
def pages():
    """Wikitext of articles of some length, each with its namespaces."""
    xml = bz2.decompress((Path(os.environ["EMBEDX_DATA"]) / DUMP).read_bytes())
    long = [page for page in _pages([xml], False) if len(page[0]) > 2000]
    return random.Random(0).sample(long, 20)


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


def test_its_words_are_those_of_the_oracle(pages):
    own = [Counter(WORD.findall(plain_text(*page))) for page in pages]
    oracle = [Counter(WORD.findall(by_oracle(page[0]))) for page in pages]
    shared = sum((mine & its).total() for mine, its in zip(own, oracle, strict=True))
    assert shared >= 0.999 * sum(words.total() for words in own)
    assert shared >= 0.99 * sum(words.total() for words in oracle)  # which leaves some tables in


@needs_gensim
def test_less_markup_is_left_than_by_either(pages):
    from gensim.corpora.wikicorpus import filter_wiki

    def residues(texts):
        """For ten thousand words."""
        return 1e4 * sum(len(RESIDUES.findall(text)) for text in texts) / sum(len(WORD.findall(text)) for text in texts)

    own = residues([plain_text(*page) for page in pages])
    others = [residues([of(page[0]) for page in pages]) for of in (by_oracle, filter_wiki)]
    assert own <= 1
    assert own < min(others) / 10
