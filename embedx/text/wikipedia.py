"""Converts a Wikipedia dump (MediaWiki XML) to plain text: the articles, one paragraph per line.

Wikitext is not parsed by a grammar, but by a few regular expressions and a scanner for nested
elements. Templates, tables, references, formulas and captions are removed; links, headings and list
items are replaced by their text.

Time is linear in the length of any text: a pattern that fails does not read the same text again.
Memory is that of one revision of a page, at most MAX_BYTES.
"""

import contextlib
import html
import itertools
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from xml.parsers import expat

# Wikitext, and the namespaces whose links are left out.
Page = tuple[str, frozenset[str]]
# Number of characters of the pages that a process receives at a time.
BATCH_CHARACTERS = 1 << 20

# English names of namespaces whose links are left out, in lower case.
HIDDEN_LINKS = frozenset({"file", "image", "media", "category"})
# A redirect in any language: "#REDIRECT [[...", "#пренасочване [[..."; an item of a numbered list
# has a space after "#".
REDIRECT = re.compile(r"\s*+#\w++\s*+(?::\s*+)?\[\[")

# Maximum text of an element that the XML parser passes on at a time.
BUFFER_BYTES = 1 << 18
# Maximum size of a revision; that of MediaWiki is 2 MB unless $wgMaxArticleSize is larger.
MAX_BYTES = 1 << 25

# Elements without prose.
HIDDEN_TAGS = (
    "ref|nowiki|math|chem|ce|gallery|source|syntaxhighlight|code|pre|timeline|imagemap|score|hiero"
    "|graph|mapframe|templatedata|noinclude|includeonly|table|references"
)
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
ATTRIBUTES = r"\b(?:[^<>\"]|\"[^\"<]*\")*?"
HIDDEN_EMPTY = re.compile(rf"<(?:{HIDDEN_TAGS}){ATTRIBUTES}/>", re.IGNORECASE)
# Edges of nested elements. Python finds the first characters of a pattern much faster than the
# content of groups, so the group "open" matches the empty string at the end of an opening edge.
HIDDEN_EDGE = re.compile(
    rf"<(?:(?:{HIDDEN_TAGS}){ATTRIBUTES}>(?P<open>)|/(?:{HIDDEN_TAGS})\s*>)", re.IGNORECASE
)
TEMPLATE_EDGE = re.compile(r"\{\{(?P<open>)|\}\}")
TABLE_EDGE = re.compile(r"\{\|(?P<open>)|\|\}")
# Characters that may precede the edge of a table in a line.
BEFORE_TABLE = " \t:*#"
EXTERNAL_LINK = re.compile(
    r"\[(?:[a-z]++:)?//[^\s\]\[]*+[ \t]*+([^\]\[\n]*+)\]"
    # an address that is not a link: the match ends without "]"
    r"|\[mailto:[^\s\]]*+(?:[ \t]*+([^\]\[\n]*+)\])?",
    re.IGNORECASE,
)
BARE_URL = re.compile(r"\b(?:https?|ftp)://[^\s\]\[<>|]+", re.IGNORECASE)
# May contain single brackets, also at its end: "[[a [sic]]]". Not a possessive group, which fails
# in Python before 3.11.5.
INNERMOST_LINK = re.compile(
    r"\[\[([^\[\]]*+(?:(?:\[(?!\[)|\](?!\])|\](?=\]\](?!\])))[^\[\]]*+)*)\]\]"
)
# Keys of namespaces.
FILES_AND_CATEGORIES = ("6", "14")
# Maximum depth of nested links; captions within captions have three.
MAX_NESTED = 50
# A reference to a character far beyond the last one; Python refuses such long numbers.
LONG_REFERENCE = re.compile(r"&#[0-9]{1000,}+;?")
MEDIA_FILE = re.compile(
    r"\.(?:jpe?g|png|svg|gif|tiff?|ogg|oga|ogv|webm|webp|pdf|djvu|mid)$", re.IGNORECASE
)
# [[de:Baum]] is an interlanguage link, not text
LANGUAGE = re.compile(r"(?:[a-z]{2,3}(?:-[a-z-]+)?|simple):", re.IGNORECASE)
BREAKING_TAG = re.compile(
    r"</?(?:br|p|div|li|ul|ol|dd|dt|dl|tr|td|th|hr|blockquote|center|h[1-6])\b[^<>]*>",
    re.IGNORECASE,
)
TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
QUOTES = re.compile(r"''+")
SWITCH = re.compile(r"__\w+?__")
LINE_START = re.compile(r"^(?:[*#:;]+|-{4,})\s*")
EMPTY_BRACKETS = re.compile(r"\(\s*(?:[,;:]\s*)*\)")
LETTER_OR_DIGIT = re.compile(r"\w")
UNBALANCED = re.compile(r"\{\{|\}\}|\[\[|\]\]")


def paragraphs(
    blocks: Iterable[bytes], cut_off: bool = False, processes: int = 1
) -> Iterator[bytes]:
    """The articles of a dump as blocks of UTF-8: pages of the main namespace without redirects.

    blocks     the XML
    cut_off    the dump may end at any place
    processes  number of processes that convert pages of a long dump; it does not change the result
    Raises `DumpError` if the dump is not well-formed, or a page is too long.
    """
    batches = _batches(_pages(blocks, cut_off))
    # a short dump needs no further process
    yield plain_bytes(next(batches, []))
    if processes == 1:
        yield from map(plain_bytes, batches)
        return
    # imported here, because the processes that run this file import nothing of embedx
    from embedx.text.in_order import in_order

    local = threading.local()
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__)]

    def by_process(pages: list[Page]) -> bytes:
        """The plain text of pages, computed in the process of this thread, or in this process if
        that fails.
        """
        # the process could not be started, or died
        with contextlib.suppress(OSError, TypeError, EOFError, pickle.UnpicklingError):
            if not hasattr(local, "process"):
                local.process = processes_of_threads.enter_context(_process(command))
            pickle.dump(pages, local.process.stdin)
            local.process.stdin.flush()
            return bytes(pickle.load(local.process.stdout))
        return plain_bytes(pages)

    with (
        contextlib.ExitStack() as processes_of_threads,
        ThreadPoolExecutor(processes, "embedx-wikipedia") as pool,
    ):
        submitted = (pool.submit(by_process, batch) for batch in batches)
        yield from in_order(submitted, 2 * processes)


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its standard input does."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    # if it died, its input cannot be flushed
    with contextlib.suppress(BrokenPipeError), process:
        yield process


def plain_bytes(pages: Iterable[Page]) -> bytes:
    """The plain text of pages as UTF-8."""
    return b"".join(plain_text(*page).encode("utf-8", "replace") for page in pages)


def _batches(pages: Iterator[Page]) -> Iterator[list[Page]]:
    """Yield the pages in batches."""
    batch = []
    n_characters = 0
    for page in pages:
        batch.append(page)
        n_characters += len(page[0])
        if n_characters >= BATCH_CHARACTERS:
            yield batch
            batch = []
            n_characters = 0
    if batch:
        yield batch


class DumpError(Exception):
    """A text is not a dump, or not a complete one."""


def _pages(blocks: Iterable[bytes], cut_off: bool) -> Iterator[Page]:
    """The articles as wikitext, whatever the namespace or encoding of the XML. Of several revisions
    the last one is read.
    """
    reader = _DumpReader()
    n_bytes = 0
    end = b""
    for block in itertools.chain(filter(None, blocks), [end]):
        error = reader.feed(block)
        yield from reader.pages
        reader.pages.clear()
        is_cut_off = cut_off and not block
        if error is not None and not is_cut_off:
            problem = f"not a whole Wikipedia dump ({error}); fetch or copy it again"
            raise DumpError(problem) from error
        if reader.has_ended_part:
            n_bytes = 0
            reader.has_ended_part = False
        n_bytes += len(block)
        if n_bytes > MAX_BYTES:
            limit = f"a page of more than {MAX_BYTES:,} bytes"
            raise DumpError(f"not a MediaWiki dump ({limit}); is it the right file?")


class _DumpReader:
    """Finds the articles in the XML of a dump.

    pages           complete articles; the consumer clears the list
    has_ended_part  whether a page, or a part of one, has ended; the consumer sets it to False
    page            the text of the parts of the current page
    namespaces      keys of namespaces by lower-case name, as declared in the dump
    content         the text of the current element
    key             the key of the current namespace element
    depth           the number of open elements
    """

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.has_ended_part = False
        self.page: dict[str, str] = {}
        self.namespaces: dict[str, str] = {}
        self.hidden_links = HIDDEN_LINKS
        self.content: list[str] = []
        self.key = ""
        self.depth = 0
        self.parser = expat.ParserCreate(namespace_separator="}")
        self.parser.buffer_text = True
        self.parser.buffer_size = BUFFER_BYTES
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self.content.append

    def feed(self, block: bytes) -> expat.ExpatError | None:
        """Parse a block; an empty one ends the dump. Returns the error if the XML is damaged."""
        try:
            self.parser.Parse(block, not block)
        except expat.ExpatError as error:
            return error
        return None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self.depth += 1
        self.key = attributes.get("key", "")
        self.content.clear()

    def _end(self, name: str) -> None:
        """An element ends."""
        self.depth -= 1
        name = name.rpartition("}")[2]
        if name in ("title", "ns", "text", "redirect"):
            self.page[name] = "".join(self.content)
        elif name == "namespace":
            self._add_namespace("".join(self.content).lower())
        elif name == "page":
            if _is_article(self.page, self.namespaces):
                self.pages.append((self.page.get("text", ""), self.hidden_links))
            self.page = {}
        is_page_or_child = self.depth <= 2
        if is_page_or_child:
            self.has_ended_part = True
        self.content.clear()

    def _add_namespace(self, namespace: str) -> None:
        """Add a namespace; links to files and categories are hidden."""
        self.namespaces[namespace] = self.key
        if self.key in FILES_AND_CATEGORIES:
            self.hidden_links |= {namespace}


def _is_article(page: dict[str, str], namespaces: dict[str, str]) -> bool:
    """Whether a page is in the main namespace, and not a redirect."""
    prefix = page.get("title", "").partition(":")[0].lower()
    # Dumps before 2012 have no <ns>.
    namespace = page.get("ns") or namespaces.get(prefix, "0")
    return namespace == "0" and "redirect" not in page and not REDIRECT.match(page.get("text", ""))


def plain_text(wikitext: str, hidden_links: frozenset[str] = HIDDEN_LINKS) -> str:
    """The prose of a page, one paragraph per line; links into the namespaces `hidden_links`
    (lower-case) are left out.
    """
    text = HIDDEN_EMPTY.sub("", COMMENT.sub("", wikitext))
    text = without_nested(text, HIDDEN_EDGE)
    text = without_nested(text, TEMPLATE_EDGE)
    text = without_nested(text, TABLE_EDGE, line_start)
    text = EXTERNAL_LINK.sub(_external_link_text, text)
    text = _without_links(text, hidden_links)
    text = BREAKING_TAG.sub("\n", text)
    text = TAG.sub("", text)
    text = QUOTES.sub("", text)
    text = SWITCH.sub("", text)
    # the pattern may begin at any word: without an address, the search would be slow and in vain
    if "://" in text:
        text = BARE_URL.sub("", text)
    text = html.unescape(LONG_REFERENCE.sub("\ufffd", text))
    text = UNBALANCED.sub(" ", text)
    text = EMPTY_BRACKETS.sub("", text)
    lines = (_plain_line(line) for line in text.split("\n") if line)
    return "".join(line + "\n" for line in lines if line)


def _external_link_text(link: re.Match[str]) -> str:
    """The text of a link to another site; an address that is not a link stays unchanged."""
    if not link[0].endswith("]"):
        return link[0]
    return link[1] or link[2] or ""


def _without_links(text: str, hidden_links: frozenset[str]) -> str:
    """The text with links to pages replaced by their labels, from the inside out, because captions
    may contain links.
    """
    for _ in range(MAX_NESTED):
        pieces = INNERMOST_LINK.split(text)
        if len(pieces) == 1:
            break
        pieces[1::2] = [_link_text(link, hidden_links) for link in pieces[1::2]]
        text = "".join(pieces)
    return text


def _link_text(link: str, hidden_links: frozenset[str]) -> str:
    """The label of a link to a page, or its target; "" for files, categories and links between
    languages.
    """
    target, _, label = link.partition("|")
    if "." in target and MEDIA_FILE.search(target.strip()):
        return ""
    namespace, colon, _ = target.partition(":")
    if colon:
        is_hidden = namespace.strip().lower() in hidden_links
        is_other_language = not label and LANGUAGE.match(target)
        if is_hidden or is_other_language:
            return ""
    return label.rpartition("|")[2] or target.lstrip(":")


def line_start(text: str, place: int) -> int:
    """The start of the line in which the edge of a table is at `place`; -1 if text precedes it."""
    while place > 0 and text[place - 1] in BEFORE_TABLE:
        place -= 1
    if place == 0 or text[place - 1] == "\n":
        return place
    return -1


def without_nested(
    text: str, edge: re.Pattern[str], start_of: Callable[[str, int], int] | None = None
) -> str:
    """`text` without the parts between matching edges; an unmatched edge stays.

    start_of   the start of an edge in a text at a place; -1 if it is no edge
    """
    open_starts = []
    # (start, end) of the removed parts, in order and not nested
    removed: list[tuple[int, int]] = []
    for match in edge.finditer(text):
        place = match.start()
        if start_of is not None:
            place = start_of(text, place)
        if place < 0:
            continue
        if match.lastgroup == "open":
            open_starts.append(place)
        elif open_starts:
            start = open_starts.pop()
            while removed and removed[-1][0] >= start:
                removed.pop()
            removed.append((start, match.end()))
    kept = []
    last_end = 0
    for start, end in removed:
        kept.append(text[last_end:start])
        last_end = end
    return "".join(kept) + text[last_end:]


def _plain_line(line: str) -> str:
    """The prose of a line; "" if it has none."""
    line = line.strip()
    # a row of a table that does not end
    if line.startswith(("|", "!")):
        return ""
    # a heading
    if line.startswith("="):
        n_before = len(line) - len(line.lstrip("="))
        n_after = len(line) - len(line.rstrip("="))
        level = min(n_before, n_after, len(line) // 2)
        line = line[level : len(line) - level]
    line = " ".join(LINE_START.sub("", line).split())
    return line if LETTER_OR_DIGIT.search(line) else ""


if __name__ == "__main__":
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(plain_bytes(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
            sys.stdout.buffer.flush()
