"""Labels that look like several in a cell, and the separator that a note proposes for them."""

from embedx.errors import Setting
from embedx.runtime.progress import Progress

# Separators that a note may propose.
SEPARATORS = ";|, "


def note_separator(name: str, labels: list[bytes], progress: Progress) -> None:
    """Propose a separator if labels look like several in a cell."""
    texts = [label.decode() for label in labels]
    for separator in SEPARATORS:
        with_separator = [text for text in texts if separator in text]
        if with_separator and _looks_like_separator(separator, texts):
            progress.note(
                f'{name}: labels such as "{with_separator[0]}" are taken whole; ',
                Setting("label_separator", separator),
                " splits them",
            )
            return


def _looks_like_separator(separator: str, labels: list[str]) -> bool:
    """Whether splitting gives numbers alone or, but for blanks, fewer different labels."""
    parts = {part.strip() for label in labels for part in label.split(separator)}
    if all(map(str.isdecimal, parts)):
        return True
    return separator != " " and len(parts) < len(labels)
