"""A Wikipedia dump (MediaWiki XML) as plain text: the articles, one paragraph a line.

Without a wikitext grammar: a few regular expressions and a scanner for what nests. Templates go as a whole, so do
tables, references, formulas and captions; links, headings and list items leave their text.

Time is linear in the text, whatever it is: a pattern that failed at one place does not look again at what it saw there. Memory
is that of a page, which may not be longer than MediaWiki lets any page be.
"""

import contextlib
import html
import itertools
import os
import pickle
import queue
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self
from xml.parsers import expat

Page = tuple[str, frozenset[str]]  # wikitext, and the namespaces of which links are left out
BATCH_CHARACTERS = 1 << 18  # of pages that a process gets at a time
FEW_BATCHES = 4  # that are made plain text of sooner than processes are started

FILE_NAMESPACE, CATEGORY_NAMESPACE = "6", "14"
HIDDEN_LINKS = frozenset({"file", "image", "media", "category"})  # their English names, lower-case
# A redirect in any language: "#REDIRECT [[...", "#пренасочване [[..."; an item of a numbered list has a space after "#".
REDIRECT = re.compile(r"\s*+#\w++\s*+(?::\s*+)?\[\[")

# MediaWiki saves no page of more than 2 MB, unless its administrator says so ($wgMaxArticleSize).
MAX_CHARACTERS = 1 << 24
MAX_MARKUP_BYTES = 1 << 20  # of a tag or comment: expat looks at all of one again with every block
MAX_OPEN = 100  # elements within elements, of which a dump has five
MAX_NAMESPACES = 1000

# Elements that hold no prose.
HIDDEN_TAGS = (
    "ref|nowiki|math|chem|ce|gallery|source|syntaxhighlight|code|pre|timeline|imagemap|score|hiero|graph|mapframe|templatedata|"
    "noinclude|includeonly|table|references"
)
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
ATTRIBUTES = r"\b(?:[^<>\"]|\"[^\"<]*\")*?"
HIDDEN_EMPTY = re.compile(rf"<(?:{HIDDEN_TAGS}){ATTRIBUTES}/>", re.IGNORECASE)
# What nests. Python finds the characters that a pattern can begin with much faster than what is in its groups: "open" matches
# nothing, and stands at the end of an edge that opens.
HIDDEN_EDGE = re.compile(rf"<(?:(?:{HIDDEN_TAGS}){ATTRIBUTES}>(?P<open>)|/(?:{HIDDEN_TAGS})\s*>)", re.IGNORECASE)
TEMPLATE_EDGE = re.compile(r"\{\{(?P<open>)|\}\}")
TABLE_EDGE = re.compile(r"\{\|(?P<open>)|\|\}")
BEFORE_TABLE = " \t:*#"  # may stand in the line before the edge of a table
EXTERNAL_LINK = re.compile(
    r"\[(?:[a-z]++:)?//[^\s\]\[]*+[ \t]*+([^\]\[\n]*+)\]"
    r"|\[mailto:[^\s\]]*+(?:[ \t]*+([^\]\[\n]*+)\])?",  # an address that is no link: the match ends without "]"
    re.IGNORECASE,
)
BARE_URL = re.compile(r"\b(?:https?|ftp)://[^\s\]\[<>|]+", re.IGNORECASE)
# Single brackets may stand in it, one even at its end: "[[a [sic]]]". No possessive group, at which Python below 3.11.5 fails.
INNERMOST_LINK = re.compile(r"\[\[([^\[\]]*+(?:(?:\[(?!\[)|\](?!\])|\](?=\]\](?!\])))[^\[\]]*+)*)\]\]")
MAX_NESTED = 50  # links within links that are told apart: captions of captions have three
LONG_REFERENCE = re.compile(r"&#[0-9]{1000,}+;?")  # to a character far beyond the last; Python reads no such number
MEDIA_FILE = re.compile(r"\.(?:jpe?g|png|svg|gif|tiff?|ogg|oga|ogv|webm|webp|pdf|djvu|mid)$", re.IGNORECASE)
LANGUAGE = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]+)?|simple):", re.IGNORECASE)  # [[de:Baum]] is a link beside the article
BREAKING_TAG = re.compile(r"</?(?:br|p|div|li|ul|ol|dd|dt|dl|tr|td|th|hr|blockquote|center|h[1-6])\b[^<>]*>", re.IGNORECASE)
TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
QUOTES = re.compile(r"''+")
SWITCH = re.compile(r"__\w+?__")
LINE_START = re.compile(r"^(?:[*#:;]+|-{4,})\s*")
EMPTY_BRACKETS = re.compile(r"\(\s*(?:[,;:]\s*)*\)")
LETTER_OR_DIGIT = re.compile(r"\w")
UNBALANCED = re.compile(r"\{\{|\}\}|\[\[|\]\]")


def paragraphs(blocks: Iterable[bytes], cut_off: bool = False, processes: int = 1) -> Iterator[bytes]:
    """The articles of a dump given as blocks of XML, as blocks of UTF-8. Some pages at a time are held in memory.

    Only pages of the main namespace that are no redirects. `ExpatError` if it is not well-formed to the end, which a dump that
    is known to be `cut_off` need not be; `DumpError` if it is nothing that MediaWiki writes. Several `processes` make plain
    text of the pages of a long dump, with the same result.
    """
    pages = _pages(blocks, cut_off)
    if processes == 1:
        for page in pages:
            yield plain_bytes([page])
        return
    batches = _batches(pages)
    for batch in itertools.islice(batches, FEW_BATCHES):
        yield plain_bytes(batch)
    yield from _by_processes(batches, processes)


def plain_bytes(pages: Iterable[Page]) -> bytes:
    """The plain text of pages as UTF-8."""
    return b"".join(plain_text(*page).encode("utf-8", "replace") for page in pages)


def _batches(pages: Iterator[Page]) -> Iterator[list[Page]]:
    batch: list[Page] = []
    n_characters = 0
    for page in pages:
        batch.append(page)
        n_characters += len(page[0])
        if n_characters >= BATCH_CHARACTERS:
            yield batch
            batch, n_characters = [], 0
    yield batch


def _by_processes(batches: Iterator[list[Page]], processes: int) -> Iterator[bytes]:
    """What `plain_bytes` makes of each batch, in order."""
    first = next(batches, None)
    if not first:
        return
    from embedx.text.in_order import in_order  # not at the top, for processes that run this file

    with contextlib.ExitStack() as stack:
        idle: queue.SimpleQueue[Cleaner] = queue.SimpleQueue()
        for _ in range(processes):
            idle.put(stack.enter_context(Cleaner()))

        def clean(batch: list[Page]) -> bytes:
            cleaner = idle.get()
            try:
                return cleaner.plain_bytes(batch)
            finally:
                idle.put(cleaner)

        pool = stack.enter_context(ThreadPoolExecutor(processes, "embedx-wikipedia"))
        batches = itertools.chain([first], batches)
        yield from in_order((pool.submit(clean, batch) for batch in batches), 2 * processes)


class Cleaner:
    """A process that makes plain text of pages. It runs this file, which imports nothing of embedx, and ends when we do."""

    def __enter__(self) -> Self:
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError, TypeError):  # no interpreter to be found, or no more processes allowed
            command = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def plain_bytes(self, pages: list[Page]) -> bytes:
        """The plain text of pages; made here if the process is gone, whatever ended it."""
        if self._process is not None and self._process.stdin and self._process.stdout:
            with contextlib.suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
                pickle.dump(pages, self._process.stdin)
                self._process.stdin.flush()
                return bytes(pickle.load(self._process.stdout))
        return plain_bytes(pages)


def serve() -> None:
    """Make plain text of the pages that come on standard input, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # which a terminal sends to all; whoever started this one ends it
    with contextlib.suppress(OSError, EOFError):
        while True:
            pickle.dump(plain_bytes(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
            sys.stdout.buffer.flush()


def _pages(blocks: Iterable[bytes], cut_off: bool) -> Iterator[Page]:
    """The articles as wikitext."""
    reader = DumpReader()
    n_bytes = 0
    for block in blocks:
        reader.parser.Parse(block, False)
        yield from reader.take()
        n_bytes += len(block)
        # Modulo 2³², at which the index begins again where a C long has no more bits.
        if (n_bytes - reader.parser.CurrentByteIndex) % (1 << 32) > MAX_MARKUP_BYTES:
            raise DumpError(f"a tag or comment of more than {MAX_MARKUP_BYTES:,} bytes")
    try:
        reader.parser.Parse(b"", True)
    except expat.ExpatError:
        if not cut_off:
            raise
    yield from reader.take()


class DumpError(Exception):
    """Says what is in the XML that no dump has."""


class DumpReader:
    """Collects the articles while `parser` is fed with XML, whatever its namespace or encoding."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self._namespaces: dict[str, str] = {}  # key by lower-case name, as the dump declares them
        self._hidden_links = HIDDEN_LINKS
        self._key = ""
        self._wanted: list[str] | None = None  # the text of the element being read, if it is one we want
        self._page: dict[str, str] = {}
        self._n_open = 0  # elements
        self._n_characters = 0  # of the element that is wanted
        self._done: list[Page] = []

    def take(self) -> Iterator[Page]:
        """What was completed since the last call."""
        yield from self._done
        self._done.clear()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._n_open += 1
        if self._n_open > MAX_OPEN:
            raise DumpError(f"more than {MAX_OPEN:,} elements within each other")
        if name in ("namespace", "title", "ns", "text"):
            self._n_characters = 0
            self._key = attributes.get("key", "")
            self._wanted = []
        elif name == "page":
            self._page = {}
        elif name == "redirect":
            self._page["redirect"] = ""

    def _text(self, text: str) -> None:
        if self._wanted is not None:
            self._wanted.append(text)
            self._n_characters += len(text)
            if self._n_characters > MAX_CHARACTERS:
                raise DumpError(f"a page of more than {MAX_CHARACTERS:,} characters")

    def _end(self, name: str) -> None:
        self._n_open -= 1
        if self._wanted is not None:
            content = "".join(self._wanted)
            self._wanted = None
            if name == "namespace":
                self._namespaces[content.lower()] = self._key
                if len(self._namespaces) > MAX_NAMESPACES:
                    raise DumpError(f"more than {MAX_NAMESPACES:,} namespaces")
                self._hidden_links = self._namespaces_without_prose()
            else:
                self._page[name] = content  # of several revisions the last one
        elif name == "page" and self._is_article():
            self._done.append((self._page.get("text", ""), self._hidden_links))
            self._page = {}

    def _is_article(self) -> bool:
        prefix = self._page.get("title", "").partition(":")[0].lower()
        namespace = self._page.get("ns") or self._namespaces.get(prefix, "0")  # dumps before 2012 have no <ns>
        redirects = "redirect" in self._page or REDIRECT.match(self._page.get("text", ""))
        return namespace == "0" and not redirects

    def _namespaces_without_prose(self) -> frozenset[str]:
        local = {name for name, key in self._namespaces.items() if key in (FILE_NAMESPACE, CATEGORY_NAMESPACE)}
        return HIDDEN_LINKS | local


def plain_text(wikitext: str, hidden_links: frozenset[str] = HIDDEN_LINKS) -> str:
    """The prose of a page, one paragraph a line; links into the namespaces `hidden_links` (lower-case) are left out."""

    def shown(link: re.Match[str]) -> str:
        target, _, label = link[1].partition("|")
        namespace = target.partition(":")[0].strip().lower() if ":" in target else ""
        if namespace in hidden_links or MEDIA_FILE.search(target.strip()) or (not label and LANGUAGE.match(target)):
            return ""
        return label.rpartition("|")[2] or target.lstrip(":")

    text = HIDDEN_EMPTY.sub("", COMMENT.sub("", wikitext))
    text = without_nested(text, HIDDEN_EDGE)
    text = without_nested(text, TEMPLATE_EDGE)
    text = without_nested(text, TABLE_EDGE, line_start)
    text = EXTERNAL_LINK.sub(lambda link: (link[1] or link[2] or "") if link[0].endswith("]") else link[0], text)
    for _ in range(MAX_NESTED):  # from the inside out, because captions have links in them
        text, found = INNERMOST_LINK.subn(shown, text)
        if not found:
            break
    text = TAG.sub("", BREAKING_TAG.sub("\n", text))
    text = BARE_URL.sub("", SWITCH.sub("", QUOTES.sub("", text)))
    text = EMPTY_BRACKETS.sub("", UNBALANCED.sub(" ", html.unescape(LONG_REFERENCE.sub("\ufffd", text))))
    lines = (_plain_line(line) for line in text.split("\n"))
    return "".join(line + "\n" for line in lines if line)


def line_start(text: str, place: int) -> int:
    """Where the line begins in which the edge of a table stands at `place`; -1 if more is in the line before it."""
    while place > 0 and text[place - 1] in BEFORE_TABLE:
        place -= 1
    return place if place == 0 or text[place - 1] == "\n" else -1


def without_nested(text: str, edge: re.Pattern[str], start_of: Callable[[str, int], int] | None = None) -> str:
    """`text` without what stands between matching edges; an edge without its counterpart stays.

    start_of   where an edge that is found begins; it is none where that is -1
    """
    opened: list[int] = []
    pieces: list[tuple[int, int]] = []  # outermost (start, end), in order
    for match in edge.finditer(text):
        place = start_of(text, match.start()) if start_of else match.start()
        if place < 0:
            continue
        if match["open"] is not None:
            opened.append(place)
        elif opened:
            start = opened.pop()
            while pieces and pieces[-1][0] >= start:
                pieces.pop()
            pieces.append((start, match.end()))
    kept = []
    end = 0
    for start, next_end in pieces:
        kept.append(text[end:start])
        end = next_end
    return "".join(kept) + text[end:]


def _plain_line(line: str) -> str:
    line = line.strip()
    if line.startswith(("|", "!")):  # left of a table that does not end
        return ""
    level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), len(line) // 2)
    line = line[level : len(line) - level]  # of a heading; of other lines the level is 0
    line = " ".join(LINE_START.sub("", line).split())
    return line if LETTER_OR_DIGIT.search(line) else ""


if __name__ == "__main__":
    serve()
