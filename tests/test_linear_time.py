"""Whatever a file holds, reading it takes work in proportion to its length.

A pattern that looks again at what it saw before holds the interpreter for hours on a few kilobytes,
and no signal gets through.
"""

import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import embedx.evaluation
import embedx.labeled.formats
import embedx.labeled.tables
import embedx.text
from embedx.labeled.files import LabelledFile, Lines, source_of
from embedx.labeled.formats import format_of
from embedx.labeled.options import ReadOptions
from embedx.labeled.read import read
from embedx.labeled.tables.settings import TableSettings
from embedx.runtime.progress import Silent
from embedx.text.opening import open_source
from embedx.text.sources import find_sources
from embedx.text.streams import text_blocks
from embedx.vectors.formats import contract, word2vec
from tests.support.linear_time import MANY, bound, check_linear, time_limit
from tests.support.refusals import refused_data

PACKAGES = (
    embedx.text,
    embedx.labeled,
    embedx.labeled.formats,
    embedx.labeled.tables,
    embedx.evaluation,
)
MODULES = [word2vec] + [
    importlib.import_module(f"{package.__name__}.{module.name}")
    for package in PACKAGES
    for module in pkgutil.iter_modules(package.__path__)
]
SOURCES = {module.__name__: Path(module.__file__).read_text("utf-8") for module in MODULES}
PATTERNS = {
    f"{module.__name__}.{name}": pattern
    for module in MODULES
    for name, pattern in vars(module).items()
    if isinstance(pattern, re.Pattern) and f"\n{name} = " in SOURCES[module.__name__]
}
# What comes first, what is repeated, what comes last.
HOSTILE = [
    ("", "<!-- a -->\n", ""),
    ("", "<!--", ""),
    ("<!--", "-->", ""),
    ("<?xml", " ", ""),
    ("<?xml>", " ", "x"),
    ("", " ", "x"),
    ("#a", " ", ""),
    ("#", "a", ""),
    ("a:", "b:c:", " d"),
    ("", "a:b ", "c"),
    ("", "a:b", " c"),
    ("", "0", "x"),
    ("1", " ", "x"),
    ("1 1", " ", "x"),
    ("1:", "1", ""),
    ("a@", ":1", "x"),
    ("", "a@", ""),
    ("a://", "b", "/"),
    ("", "wik", ""),
    ("", "wika-", ""),
    ("wika-", "pages-", ""),
    ("wik", ".xml", "x"),
    ("", "=", ""),
    ("", "=", "a"),
    ("", "[[", ""),
    ("", "[[a|", ""),
    ("", "]]", ""),
    ("[//", "a", ""),
    ("[//", "a ", ""),
    ("[//a", " ", ""),
    ("", "[//", ""),
    ("", "[a", ""),
    ("[", "a", ""),
    ("[mailto:", "a", ""),
    ("[mailto:a", " ", ""),
    ("", "[mailto:", ""),
    ("", "[mailto:", " "),
    ("<ref", ' a="b"', ""),
    ("", "<ref", ""),
    ("</ref", " ", ""),
    ("", '<ref name="', ""),
    ("", "{{", ""),
    ("", "{|\n", ""),
    ("", " ", "{"),
    ("", "__a", ""),
    ("__", "a", ""),
    ("", "''", "'"),
    ("(", ", ", ""),
    ("", "(", ""),
    ("", "http://", ""),
    ("", ".jp", ""),
    ("de-", "a-", ""),
    ("<br", " ", ""),
    ("", "<a", ""),
    ("&#", "1", ""),
    ("", "&#1", ""),
    ("", "*#", ""),
    ("", "\n", ""),
    ("idx", "1", ""),
    ('"', '""', ""),
    ('"', '""', " x"),
    ("", '" ', "x"),
    ("", '"a ', ""),
    ("", '"" "', "x"),
    ('a "', " ", ""),
    ('a "b"', " ", ""),
]


def apply(pattern, method, parts):
    """Apply a pattern to many times the middle of `parts`."""
    text = parts[0] + parts[1] * MANY + parts[2]
    with time_limit():
        matches = getattr(pattern, method)(
            text.encode() if isinstance(pattern.pattern, bytes) else text
        )
        for _ in matches if method == "finditer" else ():
            pass


@pytest.mark.parametrize("name", PATTERNS)
def test_every_regular_expression_is_linear(name):
    module, _, short_name = name.rpartition(".")
    uses = set(re.findall(rf"\b{short_name}\.(\w+)\(", SOURCES[module]))
    for method in uses & {"match", "fullmatch"} or {"finditer"}:
        for parts in HOSTILE:
            apply(PATTERNS[name], method, parts)


def test_all_patterns_have_names_and_were_found():
    assert len(PATTERNS) > 30
    for source in SOURCES.values():
        assert not re.search(
            r"\bre\.(match|search|fullmatch|sub|subn|split|findall|finditer)\(", source
        )


# ---- files


def test_a_text_that_begins_with_comments_is_a_text(tmp_path):
    content = b"<!-- a -->\n" * 40 + b"text"
    (tmp_path / "corpus.txt").write_bytes(content)
    (source,) = find_sources([str(tmp_path / "corpus.txt")])
    with open_source(source) as file:
        assert b"".join(text_blocks(source, file)) == content


@pytest.mark.parametrize(
    "line",
    [
        ",".join(["00:1a:2b:3c:4d:5e"] * 6) + " mac",
        "2024-01-01T00:00:00," * 14 + " x",
        ":1",
        "a :1",
        "a b:1 c",
        "a::b ::c :d",
    ],
)
def test_what_is_no_libsvm_line_is_refused_at_once(tmp_path, line):
    (tmp_path / "train.txt").write_text(line + "\n")
    file = LabelledFile(source_of(str(tmp_path / "train.txt")), Silent())
    with refused_data("train.txt:1", "text_column"):
        format_of(file, ReadOptions())


# ---- loops


def test_empty_lines_are_read_in_linear_time(tmp_path, monkeypatch):
    for module in ("decompression", "read_ahead"):
        monkeypatch.setattr(f"embedx.text.{module}.BLOCK_BYTES", 64)

    def work(n):
        (tmp_path / "train.txt").write_bytes(b"a 1:1\n" + b"\r\n" * n + b"b 1:1\n" + b"\n" * n)
        lines = Lines(source_of(str(tmp_path / "train.txt")), Silent())
        chunks, completed = bound(lambda: list(lines), "_read")
        assert b"".join(chunks).replace(b"\r", b"") == b"a 1:1\n" + b"\n" * n + b"b 1:1\n"
        assert not lines.min_lines
        return completed

    check_linear(work, 2000)


def test_a_long_line_of_vectors_is_read_in_linear_time(monkeypatch):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 64)

    def work(n):
        blocks, completed = bound(
            lambda: list(word2vec.line_blocks("vectors", io.BytesIO(b"1 " * n))), "line_blocks"
        )
        assert blocks == [[b"1 " * n]]
        return completed

    check_linear(work, 2000)


def test_the_end_of_a_word_is_found_in_linear_time(monkeypatch):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 64)

    def work(n):
        stream = io.BytesIO(b"1 1\n" + b"a" * n + b" " + bytes(4))
        file = contract.OpenFile("vectors", b"", stream, Silent())
        (words, *_), completed = bound(
            lambda: word2vec.read_binary(file), "read_binary", "_read_name"
        )
        assert words == ["a" * n]
        return completed

    check_linear(work, 4096)


def test_a_heading_of_many_columns_is_read_in_linear_time(tmp_path):
    file = tmp_path / "wide.csv"
    columns = [f"c{k}" for k in range(MANY)]
    rows = [",".join(str(k % 7 + row) for k in range(MANY)) for row in range(2)]
    file.write_text(
        "\n".join([",".join([*columns, "label"]), f"{rows[0]},a", f"{rows[1]},b"]) + "\n"
    )
    named = TableSettings(feature_columns=",".join(columns), label_column="label")
    with time_limit(10):
        data = read(str(file))
        read(str(file), schema=data.schema)
        read(str(file), table=named)
    assert data.features.shape == (2, MANY)
