"""The ways a run can end that are not our bug; the command line turns each into one line and an
exit code.
"""

import contextlib
import numbers
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NewType

MAX_CHARACTERS = 1000
# of the value of a setting
MAX_DIGITS = 40
MAX_LETTERS = 200
# by category: control and format characters, halves of surrogate pairs, separators of lines
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Lowest share of characters that two names of files without their suffixes have in common, where
# one may be meant by the other.
SIMILAR_STEMS = 0.75
QUERY_SEPARATOR = re.compile("[&;]")
JOINERS = "\u200c\u200d"  # format characters that words and emoji are spelled with


@dataclass(frozen=True)
class Setting:
    """A setting named in a message: `--min-count 0` on the command line, `min_count=0` in Python.

    name   as it is declared
    value  None names the setting alone
    """

    name: str
    value: object = None


Part = str | Setting
Text = Part | tuple["Text", ...]  # tuples within tuples are as if they were one
# The text of a message that is raised or reported elsewhere.
Reason = NewType("Reason", str)
Spelling = Callable[[Setting], str]


def in_python(setting: Setting) -> str:
    """A setting as Python writes it: `min_count=0`, `objective='ove'`."""
    value = setting.value
    if value is None:
        return setting.name
    if isinstance(value, PurePath):
        value = str(value)
    elif isinstance(value, float):  # numpy's too
        value = float(value)
    return f"{setting.name}={value_text(value, repr)}"


def value_text(value: object, write: Callable[[object], str] = str) -> str:
    """A value in a message, cut if it is long, and without the secrets of a URL."""
    if isinstance(value, str):
        value = public_url(value)
    try:
        text = write(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "of thousands of digits"
    limit = MAX_DIGITS if isinstance(value, numbers.Number) else MAX_LETTERS
    return text if len(text) <= limit else f"{text[:limit]}…"


def by_other_names(names: Mapping[str, str]) -> Spelling:
    """Spells settings as Python does, some of them by other names, as an estimator has them."""

    def spelling(setting: Setting) -> str:
        return in_python(replace(setting, name=names.get(setting.name, setting.name)))

    return spelling


def spelled(text: Text, spelling: Spelling) -> str:
    """The text, with its settings spelled so."""
    return "".join(spelling(part) if isinstance(part, Setting) else part for part in parts_of(text))


def parts_of(text: Text) -> tuple[Part, ...]:
    """The text as one tuple, in which no other is."""
    if not isinstance(text, tuple):
        return (text,)
    return tuple(part for inner in text for part in parts_of(inner))


def joined(texts: Iterable[Text], separator: str) -> Text:
    """The texts with the separator between them."""
    parts: list[Text] = []
    for text in texts:
        parts += [separator, text] if parts else [text]
    return tuple(parts)


class EmbedxError(Exception):
    """A mistake of the user: says what, where and what to try, in one line however long and odd the
    text is that it quotes.

    parts  the message: text, and the settings that it names, which each front end spells its way
    names  other names of settings, as an estimator has them
    """

    exit_code = 2
    names: Mapping[str, str] = {}

    def __init__(self, *parts: Text) -> None:
        super().__init__(*parts)
        self.parts = parts_of(parts)

    def __str__(self) -> str:
        return self.spelled(by_other_names(self.names))

    def spelled(self, spelling: Spelling) -> str:
        """The message, with its settings spelled so."""
        return one_line(spelled(self.parts, spelling))


class SettingError(EmbedxError):
    """A value that a setting cannot have, here or at all.

    setting  its name as it is declared, such as `min_count`
    value    what was given; None names the setting alone
    problem  what is wrong with it
    remedy   what to do instead
    """

    separator = ": "  # between the setting and the problem

    def __init__(self, setting: str, value: object, problem: Text, remedy: Text = "") -> None:
        place = Setting(setting, value)
        super().__init__(place, self.separator, problem, _after_semicolon(remedy))
        self.args = (setting, value, problem, remedy)  # what pickle makes it of again
        self.setting = setting
        self.value = value
        self.problem = problem
        self.remedy = remedy


class InapplicableError(SettingError):
    """A setting that has no effect, or is not possible, beside the others: `--draws applies only
    with ...`, `--collapsed does not apply with ...`.
    """

    separator = " "


class DataError(EmbedxError):
    """A file, or data given from Python, that cannot be used.

    file     its name, or that of the argument of a function
    line     the number of the line, from 1; None where there is no line to name
    problem  what is wrong there
    remedy   what to do
    """

    def __init__(self, file: object, line: int | None, problem: Text, remedy: Text = "") -> None:
        place = f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(place, problem, _after_semicolon(remedy))
        self.args = (file, line, problem, remedy)
        self.file = file
        self.line = line
        self.problem = problem
        self.remedy = remedy


def _after_semicolon(remedy: Text) -> Text:
    return ("; ", remedy) if remedy else ()


def one_line(message: str) -> str:
    """The message without its middle if it is long, and without characters that break lines or that
    a terminal obeys.
    """
    if len(message) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message
    )


def public_url(name: str) -> str:
    """A URL without what may be secret: user, password, and values of its query. Any other name
    stays as it is.
    """
    scheme, mark, address = name.partition("://")
    if not mark:
        return name
    location, question_mark, query = address.partition("#")[0].partition("?")
    host, slash, path = location.partition("/")
    url = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    if not question_mark:
        return url
    keys = [part.partition("=")[0] for part in QUERY_SEPARATOR.split(query) if "=" in part]
    hidden_values = "&".join(f"{key}=..." for key in keys) or "..."
    return f"{url}?{hidden_values}"


def visible(text: str, kept: str = "") -> str:
    """The text with escapes in place of characters that a terminal obeys (its commands, the
    direction of text), but for those that are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c) if c not in kept else c for c in text)


def _visible(c: str) -> str:
    is_obeyed = unicodedata.category(c) in OBEYED and c not in JOINERS
    return c.encode("unicode_escape").decode("ascii") if is_obeyed else c


def near(word: object, known: Iterable[str], remedy: str) -> str:
    """The end of a message about an unknown name: `did you mean ove?` if a known one is much like
    it, then the remedy.
    """
    import difflib

    by_form = {name.lstrip("-").lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lstrip("-").lower(), by_form, n=1, cutoff=0.65)
    return f"did you mean {by_form[found[0]]}? {remedy}" if found else remedy


def near_file(path: str, remedy: str, others: Iterable[str] = ()) -> str:
    """The same about a path where there is nothing, by the names in its folder and others. Names
    that are alike by their suffix alone, as a.txt and b.txt are, do not count.
    """
    import difflib

    folder, name = os.path.split(path)
    known = [*others]
    with contextlib.suppress(OSError, ValueError):
        known += [other for other in os.listdir(folder or ".") if not other.startswith(".")]
    stems = {other: _stem(other) for other in known if other != name}
    near_stems = difflib.get_close_matches(
        _stem(name), set(stems.values()), n=len(stems) + 1, cutoff=SIMILAR_STEMS
    )
    return near(name, (other for other, stem in stems.items() if stem in near_stems), remedy)


def _stem(name: str) -> str:
    """A file's name in lower case, without its last suffix."""
    return os.path.splitext(name)[0].lower()


def choice(word: object, known: Iterable[str]) -> str:
    """The end of a message about a name that is none of the known ones."""
    known = tuple(known)
    return near(word, known, f"choose one of {', '.join(known)}")


def check_kind(kind: str, known: Iterable[str]) -> None:
    """Raise `SettingError` for a kind of frame or figure that there is not."""
    if kind not in known:
        raise SettingError("kind", kind, choice(kind, known))


class LostClusterError(EmbedxError):
    """The cluster that trains or predicts is lost, while this process and its state are whole.

    problem  which part of which cluster
    remedy   what to do
    """

    def __init__(
        self, problem: Text, remedy: Text = "start it again, and repeat the command"
    ) -> None:
        super().__init__(Setting("cluster"), ": ", problem, "; ", remedy)
        self.args = (problem, remedy)
        self.problem = problem
        self.remedy = remedy


class DivergedError(EmbedxError):
    """Training diverged, at lower rates too, or ended with what is not finite.

    problem  what is wrong, and since when
    remedy   what to change
    """

    exit_code = 3

    def __init__(self, problem: Text, remedy: Text = "") -> None:
        super().__init__(problem, _after_semicolon(remedy))
        self.args = (problem, remedy)
        self.problem = problem
        self.remedy = remedy
