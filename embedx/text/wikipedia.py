"""A Wikipedia dump (MediaWiki XML) as plain text: the articles, one paragraph a line.

Without a wikitext grammar: a few regular expressions and a scanner for what nests. Templates go as
a whole, so do tables, references, formulas and captions; links, headings and list items leave their
text.

Time is linear in the text, whatever it is: a pattern that failed at one place does not look again
at what it saw there. Memory is that of a revision of a page, which may not be longer than
MAX_BYTES.
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

Page = tuple[str, frozenset[str]]  # wikitext, and the namespaces of which links are left out
BATCH_CHARACTERS = 1 << 20  # of pages that a process gets at a time

HIDDEN_LINKS = frozenset({"file", "image", "media", "category"})  # their English names, lower-case
# A redirect in any language: "#REDIRECT [[...", "#пренасочване [[..."; an item of a numbered list
# has a space after "#".
REDIRECT = re.compile(r"\s*+#\w++\s*+(?::\s*+)?\[\[")

BUFFER_BYTES = 1 << 18  # of an element's text that the XML parser passes on at a time
# of a revision; MediaWiki saves none of more than 2 MB unless $wgMaxArticleSize says so
MAX_BYTES = 1 << 25

# Elements that hold no prose.
HIDDEN_TAGS = (
    "ref|nowiki|math|chem|ce|gallery|source|syntaxhighlight|code|pre|timeline|imagemap|score|hiero|graph|mapframe|templatedata|"
    "noinclude|includeonly|table|references"
)
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
ATTRIBUTES = r"\b(?:[^<>\"]|\"[^\"<]*\")*?"
HIDDEN_EMPTY = re.compile(rf"<(?:{HIDDEN_TAGS}){ATTRIBUTES}/>", re.IGNORECASE)
# What nests. Python finds the characters that a pattern can begin with much faster than what is in
# its groups: "open" matches nothing, and stands at the end of an edge that opens.
HIDDEN_EDGE = re.compile(
    rf"<(?:(?:{HIDDEN_TAGS}){ATTRIBUTES}>(?P<open>)|/(?:{HIDDEN_TAGS})\s*>)", re.IGNORECASE
)
TEMPLATE_EDGE = re.compile(r"\{\{(?P<open>)|\}\}")
TABLE_EDGE = re.compile(r"\{\|(?P<open>)|\|\}")
BEFORE_TABLE = " \t:*#"  # may stand in the line before the edge of a table
EXTERNAL_LINK = re.compile(
    r"\[(?:[a-z]++:)?//[^\s\]\[]*+[ \t]*+([^\]\[\n]*+)\]"
    # an address that is no link: the match ends without "]"
    r"|\[mailto:[^\s\]]*+(?:[ \t]*+([^\]\[\n]*+)\])?",
    re.IGNORECASE,
)
BARE_URL = re.compile(r"\b(?:https?|ftp)://[^\s\]\[<>|]+", re.IGNORECASE)
# Single brackets may stand in it, one even at its end: "[[a [sic]]]". No possessive group, at which
# Python below 3.11.5 fails.
INNERMOST_LINK = re.compile(
    r"\[\[([^\[\]]*+(?:(?:\[(?!\[)|\](?!\])|\](?=\]\](?!\])))[^\[\]]*+)*)\]\]"
)
FILES_AND_CATEGORIES = ("6", "14")  # keys of namespaces
MAX_NESTED = 50  # links within links that are recognised: captions of captions have three
# to a character far beyond the last; Python reads no such number
LONG_REFERENCE = re.compile(r"&#[0-9]{1000,}+;?")
MEDIA_FILE = re.compile(
    r"\.(?:jpe?g|png|svg|gif|tiff?|ogg|oga|ogv|webm|webp|pdf|djvu|mid)$", re.IGNORECASE
)
# [[de:Baum]] is a link beside the article
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
    """The articles of a dump given as blocks of XML, as blocks of UTF-8. Some pages at a time are
    held in memory.

    Only pages of the main namespace that are no redirects. `DumpError` if it is not well-formed to
    the end, which a dump that is known to be `cut_off` need not be, or has too long a page. Several
    `processes` make plain text of the pages of a long dump, with the same result.
    """
    batches = _batches(_pages(blocks, cut_off))
    yield plain_bytes(next(batches, []))  # a short dump needs no other process
    if processes == 1:
        yield from map(plain_bytes, batches)
        return
    from embedx.text.in_order import in_order  # not at the top, for processes that run this file

    own = threading.local()
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__)]

    def by_process(pages: list[Page]) -> bytes:
        """The plain text of pages, by this thread's process, which imports nothing of embedx; made
        here if that fails.
        """
        # no interpreter or process, or it died
        with contextlib.suppress(OSError, TypeError, EOFError, pickle.UnpicklingError):
            if not hasattr(own, "process"):
                own.process = opened.enter_context(_process(command))
            pickle.dump(pages, own.process.stdin)
            own.process.stdin.flush()
            return bytes(pickle.load(own.process.stdout))
        return plain_bytes(pages)

    with (
        contextlib.ExitStack() as opened,
        ThreadPoolExecutor(processes, "embedx-wikipedia") as pool,
    ):
        yield from in_order((pool.submit(by_process, batch) for batch in batches), 2 * processes)


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its standard input does."""
    pipe = subprocess.PIPE
    opened = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    # what it did not read, because it died
    with contextlib.suppress(BrokenPipeError), opened as process:
        yield process


def plain_bytes(pages: Iterable[Page]) -> bytes:
    """The plain text of pages as UTF-8."""
    return b"".join(plain_text(*page).encode("utf-8", "replace") for page in pages)


def _batches(pages: Iterator[Page]) -> Iterator[list[Page]]:
    batch = []
    n_characters = 0
    for page in pages:
        batch.append(page)
        n_characters += len(page[0])
        if n_characters >= BATCH_CHARACTERS:
            yield batch
            batch, n_characters = [], 0
    if batch:
        yield batch


class DumpError(Exception):
    """Says why a text is no dump, or not a whole one."""


def _pages(blocks: Iterable[bytes], cut_off: bool) -> Iterator[Page]:
    """The articles as wikitext, whatever the namespace or encoding of the XML. Of several revisions
    the last one is read.
    """
    reader = _DumpReader()
    n_bytes = 0
    an_empty_block = b""  # is the end
    for block in itertools.chain(filter(None, blocks), [an_empty_block]):
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

    pages           articles that have ended, to be taken
    has_ended_part  a page, or a part of one, has ended, until it is set to False
    page            the text of the parts of the page that is read
    namespaces      their keys by lower-case name, as the dump declares them
    content         of the element that was opened last
    key             of the namespace that is read
    depth           elements that have not ended
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
        """Read a block, an empty one at the end; the error where the XML is damaged."""
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
        is_part_of_file_or_page = self.depth <= 2
        if is_part_of_file_or_page:
            self.has_ended_part = True
        self.content.clear()

    def _add_namespace(self, namespace: str) -> None:
        """Add a namespace; links to files and categories are hidden."""
        self.namespaces[namespace] = self.key
        if self.key in FILES_AND_CATEGORIES:
            self.hidden_links |= {namespace}


def _is_article(page: dict[str, str], namespaces: dict[str, str]) -> bool:
    """Whether a page is of the main namespace, and no redirect."""
    prefix = page.get("title", "").partition(":")[0].lower()
    namespace = page.get("ns") or namespaces.get(prefix, "0")  # dumps before 2012 have no <ns>
    return namespace == "0" and "redirect" not in page and not REDIRECT.match(page.get("text", ""))


def plain_text(wikitext: str, hidden_links: frozenset[str] = HIDDEN_LINKS) -> str:
    """The prose of a page, one paragraph a line; links into the namespaces `hidden_links`
    (lower-case) are left out.
    """

    def shown(link: str) -> str:
        target, _, label = link.partition("|")
        namespace, has_namespace, _ = target.partition(":")
        is_hidden = has_namespace and (
            namespace.strip().lower() in hidden_links or (not label and LANGUAGE.match(target))
        )
        if is_hidden or ("." in target and MEDIA_FILE.search(target.strip())):
            return ""
        return label.rpartition("|")[2] or target.lstrip(":")

    text = HIDDEN_EMPTY.sub("", COMMENT.sub("", wikitext))
    text = without_nested(text, HIDDEN_EDGE)
    text = without_nested(text, TEMPLATE_EDGE)
    text = without_nested(text, TABLE_EDGE, line_start)
    text = EXTERNAL_LINK.sub(
        lambda link: (link[1] or link[2] or "") if link[0].endswith("]") else link[0], text
    )
    for _ in range(MAX_NESTED):  # from the inside out, because captions have links in them
        pieces = INNERMOST_LINK.split(text)
        if len(pieces) == 1:
            break
        pieces[1::2] = map(shown, pieces[1::2])
        text = "".join(pieces)
    text = QUOTES.sub("", TAG.sub("", BREAKING_TAG.sub("\n", text)))
    text = SWITCH.sub("", text)
    if "://" in text:  # else the pattern, which may begin at any word, takes long to find nothing
        text = BARE_URL.sub("", text)
    text = EMPTY_BRACKETS.sub(
        "", UNBALANCED.sub(" ", html.unescape(LONG_REFERENCE.sub("\ufffd", text)))
    )
    lines = (_plain_line(line) for line in text.split("\n") if line)
    return "".join(line + "\n" for line in lines if line)


def line_start(text: str, place: int) -> int:
    """Where the line begins in which the edge of a table stands at `place`; -1 if more is in the
    line before it.
    """
    while place > 0 and text[place - 1] in BEFORE_TABLE:
        place -= 1
    return place if place == 0 or text[place - 1] == "\n" else -1


def without_nested(
    text: str, edge: re.Pattern[str], start_of: Callable[[str, int], int] | None = None
) -> str:
    """`text` without what stands between matching edges; an edge without its counterpart stays.

    start_of   where an edge that is found begins; it is none where that is -1
    """
    opened = []
    pieces: list[tuple[int, int]] = []  # outermost (start, end), in order
    for match in edge.finditer(text):
        place = start_of(text, match.start()) if start_of else match.start()
        if place < 0:
            continue
        if match.lastgroup:  # is "open"
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
    if line.startswith("="):
        level = min(
            len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")), len(line) // 2
        )
        line = line[level : len(line) - level]  # of a heading
    line = " ".join(LINE_START.sub("", line).split())
    return line if LETTER_OR_DIGIT.search(line) else ""


if __name__ == "__main__":
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(plain_bytes(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
            sys.stdout.buffer.flush()
