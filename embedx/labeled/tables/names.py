"""Names of columns: usual ones by which roles are guessed, positions, and lists for messages."""

import itertools
from collections.abc import Iterable

# In lower case.
LABEL_NAMES = {
    "label",
    "labels",
    "subjects",
    "category",
    "categories",
    "class",
    "tag",
    "tags",
    "target",
    "topic",
    "topics",
}
TITLE_NAMES = {"title", "subject", "headline"}
TEXT_NAMES = {
    "text",
    "abstract",
    "body",
    "content",
    "message",
    "sentence",
    "document",
    "description",
    "review",
    "comment",
}
# Row numbers as pandas writes them; not used unless they are named.
INDEX_NAMES = {"", "unnamed: 0", "__index_level_0__"}
MAX_COLUMNS_IN_MESSAGE = 30
MAX_LETTERS_OF_COLUMN = 40


def is_position(name: str) -> bool:
    """Whether a column is named by its number."""
    return name.isdecimal() and name.isascii()


def listed(names: Iterable[str]) -> str:
    """The first of the names, shortened, for messages."""
    first = [
        name[:MAX_LETTERS_OF_COLUMN] for name in itertools.islice(names, MAX_COLUMNS_IN_MESSAGE + 1)
    ]
    if len(first) > MAX_COLUMNS_IN_MESSAGE:
        first[MAX_COLUMNS_IN_MESSAGE:] = ["..."]
    return ", ".join(first)
