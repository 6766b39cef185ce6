"""Errors that are not bugs of embedx; the command line prints each as one line and returns its exit
code.
"""

import contextlib
import numbers
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, NewType

MAX_CHARACTERS = 1000
# of the value of a setting
MAX_DIGITS = 40
MAX_LETTERS = 200
# Unicode categories: control and format characters, surrogates, separators of lines
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Minimum similarity of two file names without suffixes for one to be suggested instead of the
# other.
SIMILAR_STEMS = 0.75
QUERY_SEPARATOR = re.compile("[&;]")
# Escape sequences by which other programs, such as numba, colour their messages.
COLOUR = re.compile(r"\x1b\[[\d;]*m")
JOINERS = "\u200c\u200d"  # format characters within words and emoji


@dataclass(frozen=True)
class Setting:
    """A setting named in a message: `--min-count 0` on the command line, `min_count=0` in Python.

    name   as it is declared
    value  None: the message names the setting only
    """

    name: str
    value: object = None


Part = str | Setting
Text = Part | tuple["Text", ...]  # nested tuples are flattened
# The text of a message that the caller raises or reports.
Reason = NewType("Reason", str)
Spelling = Callable[[Setting], str]


def in_python(setting: Setting) -> str:
    """A setting in Python's notation: `min_count=0`, `objective='ove'`."""
    value = setting.value
    if value is None:
        return setting.name
    if isinstance(value, PurePath):
        value = str(value)
    elif isinstance(value, float):  # numpy's too
        value = float(value)
    return f"{setting.name}={value_text(value, repr)}"


def value_text(value: object, write: Callable[[object], str] = str) -> str:
    """A value in a message, truncated if long, and without the secrets of a URL."""
    if isinstance(value, str):
        value = public_url(value)
    try:
        text = write(value)
    except ValueError:  # Python refuses to write a number of more than 4,300 digits
        return "of thousands of digits"
    limit = MAX_DIGITS if isinstance(value, numbers.Number) else MAX_LETTERS
    return text if len(text) <= limit else f"{text[:limit]}…"


def by_other_names(names: Mapping[str, str]) -> Spelling:
    """Returns a spelling in Python's notation with other names for some settings, such as those of
    an estimator.
    """

    def spelling(setting: Setting) -> str:
        return in_python(replace(setting, name=names.get(setting.name, setting.name)))

    return spelling


def spelled(text: Text, spelling: Spelling) -> str:
    """The text, with its settings in this spelling."""
    return "".join(spelling(part) if isinstance(part, Setting) else part for part in parts_of(text))


def parts_of(text: Text) -> tuple[Part, ...]:
    """The text as a flat tuple."""
    if not isinstance(text, tuple):
        return (text,)
    return tuple(part for inner in text for part in parts_of(inner))


def text_to_json(text: Text) -> list[Any]:
    """The text as JSON types: strings, and a list of the name and the value of each setting."""
    return [
        [part.name, part.value] if isinstance(part, Setting) else part for part in parts_of(text)
    ]


def text_from_json(parts: str | list[Any]) -> Text:
    """The text of `text_to_json`, or a plain string."""
    if isinstance(parts, str):
        return parts
    return tuple(Setting(*part) if isinstance(part, list) else part for part in parts)


def counted(n: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def joined(texts: Iterable[Text], separator: str) -> Text:
    """The texts with the separator between them."""
    parts: list[Text] = []
    for text in texts:
        parts += [separator, text] if parts else [text]
    return tuple(parts)


class EmbedxError(Exception):
    """An error that the user can mend. Its message says what is wrong, where, and what to try, in
    one line, whatever text it quotes.

    parts  the message: text, and the settings that it names, which the command line and Python
           spell differently
    names  other names of settings, such as those of an estimator
    """

    exit_code = 2
    names: Mapping[str, str] = {}

    def __init__(self, *parts: Text) -> None:
        super().__init__(*parts)
        self.parts = parts_of(parts)

    def __str__(self) -> str:
        return self.spelled(by_other_names(self.names))

    def spelled(self, spelling: Spelling) -> str:
        """The message, with its settings in this spelling."""
        return one_line(spelled(self.parts, spelling))


class SettingError(EmbedxError):
    """A value that a setting cannot have, in this context or at all.

    setting  its name as declared, such as `min_count`
    value    the given value; None: the message names the setting only
    problem  what is wrong with it
    remedy   what to do instead, as a command that begins with a verb: `use ...`, `give ...`
    """

    separator = ": "  # between the setting and the problem

    def __init__(self, setting: str, value: object, problem: Text, remedy: Text = "") -> None:
        place = Setting(setting, value)
        super().__init__(place, self.separator, problem, _after_semicolon(remedy))
        self.args = (setting, value, problem, remedy)  # for pickle
        self.setting = setting
        self.value = value
        self.problem = problem
        self.remedy = remedy


class InapplicableError(SettingError):
    """A setting that has no effect, or is not possible, together with the other settings: `--draws
    applies only with ...`, `--collapsed does not apply with ...`.
    """

    separator = " "


class DataError(EmbedxError):
    """A file, or data given from Python, that cannot be used.

    file     its name, or the name of an argument
    line     the number of the line, from 1; None if no line is named
    problem  what is wrong there
    remedy   what to do, as of `SettingError`
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
    """The message with its middle removed if it is long, and without colours and characters that
    break lines or control a terminal.
    """
    message = COLOUR.sub("", message)
    if len(message) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in message
    )


def public_url(name: str) -> str:
    """A URL without its possible secrets: user, password, and values of its query. Any other name
    stays unchanged.
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
    """The text with escapes instead of characters that control a terminal (commands, the direction
    of text), except those in `kept`.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(c) if c not in kept else c for c in text)


def _visible(c: str) -> str:
    is_obeyed = unicodedata.category(c) in OBEYED and c not in JOINERS
    return c.encode("unicode_escape").decode("ascii") if is_obeyed else c


def near(word: object, known: Iterable[str], remedy: str) -> str:
    """The end of a message about an unknown name: `did you mean ove?` if a known one is similar,
    then the remedy.
    """
    import difflib

    by_form = {name.lstrip("-").lower(): name for name in known}
    found = difflib.get_close_matches(str(word).lstrip("-").lower(), by_form, n=1, cutoff=0.65)
    return f"did you mean {by_form[found[0]]}? {remedy}" if found else remedy


def near_file(path: str, remedy: str, others: Iterable[str] = ()) -> str:
    """The end of a message about a missing path, by the names in its folder and `others`. Names
    that are similar only in their suffix, such as a.txt and b.txt, do not count.
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


def no_such(
    kind: str, path: object, remedy: str = "check the name", others: Iterable[str] = ()
) -> DataError:
    """The error for a path that does not exist; see `near_file`.

    kind  what should be there, such as "file or model folder"
    """
    return DataError(path, None, f"no such {kind}", near_file(str(path), remedy, others))


def _stem(name: str) -> str:
    """A file's name in lower case, without its last suffix."""
    return os.path.splitext(name)[0].lower()


def choice(word: object, known: Iterable[str]) -> str:
    """The end of a message about a name that is not one of the known ones."""
    known = tuple(known)
    return near(word, known, f"choose one of {', '.join(known)}")


def check_kind(kind: str, known: Iterable[str]) -> None:
    """Raise `SettingError` for an unknown kind of frame or figure."""
    if kind not in known:
        raise SettingError("kind", kind, choice(kind, known))


class LostClusterError(EmbedxError):
    """The cluster that trains or predicts is lost; this process and its state are intact.

    problem  which part of which cluster is lost
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
    """Training diverged, even at lower learning rates, or ended with values that are not finite.

    problem  what is wrong, and from when on
    remedy   what to change
    saved    which model was saved, and where
    """

    exit_code = 3

    def __init__(self, problem: Text, remedy: Text = "", saved: Text = "") -> None:
        super().__init__(problem, _after_semicolon(remedy), _after_semicolon(saved))
        self.args = (problem, remedy, saved)
        self.problem = problem
        self.remedy = remedy
        self.saved = saved
