"""The ways a run can end that are not our bug; the command line turns each into one line and an exit code."""

import contextlib
import os
from collections.abc import Iterable

MAX_CHARACTERS = 1000


class EmbedxError(Exception):
    """A mistake of the user: says what, where and what to try, in one line however long and odd the text is that it quotes."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """The message without its middle if it is long, and without characters that break lines or that a terminal obeys."""
    if len(message) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message)


def near(word: object, known: Iterable[str], remedy: str) -> str:
    """The end of a message about an unknown name: `did you mean ove?` if a known one is much like it, then the remedy."""
    import difflib

    by_form = {name.lstrip("-").lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lstrip("-").lower(), by_form, n=1, cutoff=0.65)
    return f"did you mean {by_form[found[0]]}? {remedy}" if found else remedy


def near_file(path: str, remedy: str, others: Iterable[str] = ()) -> str:
    """The same about a path where there is nothing, by the names in its folder and others."""
    folder, name = os.path.split(path)
    known = [*others]
    with contextlib.suppress(OSError, ValueError):
        known += [each for each in os.listdir(folder or ".") if not each.startswith(".")]
    return near(name, known, remedy)


def choice(word: object, known: Iterable[str]) -> str:
    """The end of a message about a name that is none of the known ones."""
    known = tuple(known)
    return near(word, known, f"choose one of {', '.join(known)}")


class DivergedError(EmbedxError):
    """Training diverged, at lower rates too, or ended with what is not finite: says when, and what to change."""

    exit_code = 3
