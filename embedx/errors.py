"""The ways a run can end that are not our bug; the command line turns each into one line and an exit code."""

from collections.abc import Iterable

MOST_CHARACTERS = 1000


class EmbedxError(Exception):
    """A mistake of the user: says what, where and what to try, in one line however long and odd the text is that it quotes."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(message: str) -> str:
    """The message without its middle if it is long, and without characters that break lines or that a terminal obeys."""
    if len(message) > MOST_CHARACTERS:
        half = MOST_CHARACTERS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message)


def near(word: object, known: Iterable[str]) -> str:
    """`; did you mean ove?`, to end a message about a name that is not known; "" where none is like it."""
    import difflib

    found = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


class DivergedError(EmbedxError):
    """Training diverged, at lower rates too, or ended with what is not finite: says when, and what to change."""

    exit_code = 3
