"""Pages of Wikipedia, as they lie in a repository of Markdown files: as text and by category."""

import hashlib
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from eval.data_repositories import Blob, Repository
from eval.data_xc import Documents

WIKIPEDIA = Repository(
    "https://github.com/chinapedia/wikipedia.abstract.en",
    "4f3e897da088cbe89a4f1d4cba3fa2e439c3721b",
    "Page",
)
SHUFFLE_SEED = 20190720
# one page of so many is test data, by the hash of its path
TEST_PAGES = 10

# Headings after which a page has no sentences.
LAST_HEADINGS = {
    "references",
    "notes",
    "footnotes",
    "external links",
    "further reading",
    "notes and references",
    "references and notes",
    "sources",
    "citations",
    "bibliography",
    "see also",
    "works cited",
    "general references",
    "in-line citations",
    "references and further reading",
    "explanatory notes",
    "discography",
    "filmography",
}
MARKUP_STARTS = ("Category:", "[", "|", "!", "{", "}", "\\", "$")
MARKUP_ENDS = ("|", "}}", "]]")
MARKUP = ("---", "|", "}}", "{{")
NOTE = re.compile(r"\[(?:\d+|[a-z]|note \d+|nb \d+|Note \d+|N \d+|citation needed)\]")
IMAGE = re.compile(
    r"\S+\.(?:jpg|jpeg|png|svg|gif|tif|tiff|ogg|ogv|oga|webm|pdf|djvu|mid)\b\S*", re.IGNORECASE
)
URL = re.compile(r"(?:https?|ftp)://\S+|www\.\S+")
COLUMNS = re.compile(r"\S\s{3,}\S")
ACCENT = re.compile("[\u0300-\u036f]")
OTHER_THAN_LETTERS = re.compile(r"[^a-z]+")
DIGIT = re.compile(r"[0-9]")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# of a paragraph
MIN_SHARE_OF_LETTERS = 0.7
# letters of a page
MIN_PAGE = 200

WORD = re.compile(r"[a-z]{2,}")
NO_TEXT_STARTS = ("|", "!", "{", "}", "[", "-", "=", "+")
# Characters of a page that are read for its categories: lines up to the first, then cut at the
# second.
MAX_LINES = 1500
MAX_TEXT = 2000
MAX_CATEGORY = 120


def is_test_page(path: str) -> bool:
    """Whether a page is test data."""
    return int(hashlib.sha1(path.encode()).hexdigest(), 16) % TEST_PAGES == 0


def without_accents(text: str) -> str:
    """The text in small letters without combining accents."""
    return ACCENT.sub("", unicodedata.normalize("NFKD", text)).lower()


# ---- text


def training_pages(pages: Sequence[Blob]) -> list[Blob]:
    """The pages that are no test data, in random order."""
    shuffled = list(pages)
    random.Random(SHUFFLE_SEED).shuffle(shuffled)
    return [page for page in shuffled if not is_test_page(page.path)]


def text8(pages: Iterable[str], n_bytes: int) -> Iterator[str]:
    """Pages in the form of text8, letters a to z and single spaces, until there are so many."""
    left = n_bytes
    for page in pages:
        if left == 0:
            return
        kept = paragraphs(page)
        if sum(map(len, kept)) >= MIN_PAGE:
            text = f" {spelled_out(' '.join(kept))}"[:left]
            left -= len(text)
            yield text


def spelled_out(text: str) -> str:
    """The words of a text, digits spelled out, other characters as single spaces."""
    letters = DIGIT.sub(lambda digit: f" {DIGITS[int(digit[0])]} ", without_accents(text))
    return OTHER_THAN_LETTERS.sub(" ", letters).strip()


def paragraphs(page: str) -> list[str]:
    """The paragraphs of a page that are sentences, up to its references."""
    kept = []
    for line in page.split("\n"):
        paragraph = line.strip()
        if paragraph.lower() in LAST_HEADINGS:
            break
        text = _cleaned(paragraph)
        if text:
            kept.append(text)
    return kept


def _cleaned(paragraph: str) -> str:
    """A paragraph without markup; "" if it is no text."""
    is_markup = paragraph.startswith(MARKUP_STARTS) or paragraph.endswith(MARKUP_ENDS)
    if is_markup and not paragraph.endswith("."):
        return ""
    text = paragraph
    if text.startswith("-   "):
        text = text[4:].strip()
    if COLUMNS.search(text) or any(mark in text for mark in MARKUP):
        return ""
    text = URL.sub(" ", IMAGE.sub(" ", NOTE.sub("", text)))
    text = text.replace("_", "").replace("*", "")
    n_letters = sum(character.isalpha() or character == " " for character in text)
    return "" if n_letters < MIN_SHARE_OF_LETTERS * len(text) else text


# ---- categories


def categorised(pages: Sequence[Blob], texts: Iterable[str]) -> Documents:
    """The beginnings of pages with their categories."""
    documents = Documents()
    for page, text in zip(pages, texts, strict=True):
        categories, body = _categories_and_body(text)
        if categories:
            part = "test" if is_test_page(page.path) else "train"
            documents.add(part, categories, WORD.findall(without_accents(body)))
    kept = _without_sort_keys([row.labels for row in documents.rows])
    documents.rows = [
        row._replace(labels=labels) for row, labels in zip(documents.rows, kept, strict=True)
    ]
    return documents


def _categories_and_body(page: str) -> tuple[list[str], str]:
    """The categories of a page, and the beginning of its text."""
    categories: list[str] = []
    body: list[str] = []
    size = 0
    for line in page.split("\n"):
        if "Category:" in line:
            if not line.lstrip().startswith("#"):
                categories += [name.strip(" |[]*") for name in line.split("Category:")[1:]]
        elif _is_text(line) and size < MAX_LINES:
            body.append(line)
            size += len(line)
    return [name for name in categories if 0 < len(name) <= MAX_CATEGORY], " ".join(body)[:MAX_TEXT]


def _is_text(line: str) -> bool:
    """Whether a line is no markup and not blank."""
    return bool(line.strip()) and not line.startswith(NO_TEXT_STARTS) and "---" not in line


def _without_sort_keys(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The different categories of each row.

    The last one may carry its sort key: it is cut back to a category that other pages have before
    their last one.
    """
    n_not_last = Counter(name for row in rows for name in row[:-1])
    n_of_category = Counter(name for row in rows for name in row)
    kept = []
    for row in rows:
        last = row[-1]
        if n_of_category[last] < 2 and n_not_last[last] == 0:
            last = _known_beginning(last, n_not_last)
        kept.append(sorted({*row[:-1], last}))
    return kept


def _known_beginning(name: str, known: Counter[str]) -> str:
    """The longest beginning of a name, of whole words, that is known; the name if none is."""
    words = name.split(" ")
    for n_words in range(len(words) - 1, 0, -1):
        beginning = " ".join(words[:n_words])
        if known[beginning]:
            return beginning
    return name
