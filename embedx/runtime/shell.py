"""Commands as one line that a shell reads."""

import re
import shlex
from collections.abc import Iterable

# Control characters, the bytes of a name that are no UTF-8, and separators of lines.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\udc80-\udcff]")
ESCAPED = re.compile(rf"[\\']|{UNPRINTABLE.pattern}")


def command_line(words: Iterable[str]) -> str:
    """The words of a command as one line that prints everywhere: `embedx info $'na\\351'` for a
    name that is not UTF-8 (POSIX.1-2024, dollar-single-quotes; bash, zsh and ksh know them).
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """The word as a shell reads it."""
    if not UNPRINTABLE.search(word):
        return shlex.quote(word)
    return f"$'{ESCAPED.sub(_escape, word)}'"


def _escape(match: re.Match[str]) -> str:
    """One character as a backslash and itself, or as its bytes in octal."""
    character = match[0]
    if character in "\\'":
        return f"\\{character}"
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogateescape"))
