"""The values of a table's cells: text, numbers, and labels, alone or in lists as other tools write
them.

In text a list may be one of Python or JSON, a set or tuple, an array as NumPy prints it, a vector
of R or an array of Postgres:

    ['joy', 'anger']   ["joy", "anger"]   {'joy', 'anger'}   ('joy', 'anger')
    ['joy' 'anger']   array(['joy', 'anger'], dtype=object)   [np.str_('joy')]
    c("joy", "anger")   {joy,"credit card"}

Items in square brackets are quoted, or numbers. One word without quotes is no list: the label
`[deleted]` is what stands there.
"""

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from embedx.errors import DataError, Setting
from embedx.runtime.progress import Progress
from embedx.text.tables import shown, value_of

# Larger numbers are an error.
MAX_NUMBER = 1e38
LIST_REMEDY = """write ["a", "b"], with quotes around a label that has brackets of its own"""
NEITHER_TEXT_NOR_NUMBER = "neither text nor a number, nor a list of these"
MISSING = ("", "nan", "na", "n/a", "null", "none")
# Separators of labels that a note may propose.
URI = re.compile(r"<?https?://\S+")
SEPARATORS = ";|, "

# A list with a function around it: `array([...])` of NumPy, `c(...)` of R, `List(...)` of Scala.
CALL = re.compile(
    r"(?P<name>(?:np\.)?array|c|list|set|frozenset|tuple|List|Set|Seq|Array|Vector|WrappedArray)"
    r"\((?P<inner>.*)\)",
    re.DOTALL,
)
DTYPE_AT_END = re.compile(r",\s*dtype\s*=[^,\[\]]*\Z")
WORD_WITHOUT_LIST_SYNTAX = re.compile(r"[^\s,;|'\"\[\]{}()]+")
EMPTY_VECTOR_OF_R = "character(0)"
START_OF_CUT_LIST = re.compile(r"[\[{(]\s*(?:['\"]|np\.)")
# Another function or class around brackets: `Index([...])` of pandas, `Counter({...})` of Python.
OTHER_CALL = re.compile(r"""[A-Za-z_][\w.]*\(\s*[\[{]\s*['"\d.+-].*[\]}]\s*(?:,.*)?\)""", re.DOTALL)
BRACKETS = ("[]", "{}", "()")
# Lists of Postgres and Scala, where names stand without quotes.
UNQUOTED = ("{", "List", "Set", "Seq", "Array", "Vector", "WrappedArray")
QUOTED = r"""[uUbB]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
# A comma, or an item; np.str_('joy') and np.int64(3) are what they hold.
TOKEN = re.compile(
    r"\s*(?:(?P<comma>,)|(?P<scalar>np\.\w+\(\s*)?"
    rf"(?:(?P<quoted>{QUOTED})|(?P<word>[^\s,;|\[\]{{}}()'\"][^\s,;|\[\]{{}}()\"]*))"
    r"(?(scalar)\s*\)|)(?=[\s,]|\Z))",
    re.DOTALL,
)
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
WHOLE_FLOAT = re.compile(r"([+-]?\d+)\.0*")
WHOLE_OF_R = re.compile(r"([+-]?\d+)L")
NUMBER_REMEDY = "write numbers as 1234.5, with a decimal point and without thousands separators"
NO_ITEM = ("None", "nan", "NaN", "null", "NULL", "NA")


class CellKind(NamedTuple):
    """What the cells of a column hold.

    read   the value of a cell, None where it has none; ValueError for what looks like a list and
           cannot be read as one
    wrong  what is said of a cell that has none
    """

    read: Callable[[Any], Any]
    wrong: str


def cell(file: str, line: int, record: Mapping[str, Any], column: str, kind: CellKind) -> Any:
    """The value of a column. Raises `DataError` where the cell is not of this kind."""
    value = value_of(record, column, None)
    try:
        result = kind.read(value)
    except ValueError as error:
        raise DataError(file, line, f'column "{column}": {error}', LIST_REMEDY) from error
    if result is not None:
        return result
    has_commas = kind is NUMBERS and has_commas_of_number(value)
    remedy = NUMBER_REMEDY if has_commas else "correct it, or choose another column"
    raise DataError(file, line, f'column "{column}" is {shown(value)}, {kind.wrong}', remedy)


def has_commas_of_number(value: Any) -> bool:
    """Whether a cell is a number but for its commas, which are decimal or between thousands."""
    if not isinstance(value, str) or "," not in value:
        return False
    return number_of(value.replace(",", "")) is not None


def text_of(value: Any) -> str | None:
    """The text of a cell, "" where it is empty, and of a list its texts joined by blanks; None if
    it is neither.
    """
    if isinstance(value, list):
        parts = [text_of(part) for part in value]
        return None if None in parts else " ".join(map(str, parts))
    if value is None or value != value:
        return ""
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def number_of(value: Any) -> float | None:
    """The number in a cell, NaN where it is empty; None if it is not a finite float32."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan if is_missing(value) else None
    return None if abs(number) > MAX_NUMBER else number


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, or says so."""
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def indicator_of(value: Any) -> bool | None:
    """Whether a row has the label of a 0/1 column; None if the cell is neither 0 nor 1."""
    if isinstance(value, str):
        marks = {"false": 0, "true": 1}
        value = marks.get(value.strip().lower(), number_of(value))
    return bool(value) if value in (0, 1) else None


def labels_of(value: Any, separator: str | None) -> list[str] | None:
    """The labels in a cell: text as it stands there, numbers by their value, or a list of these;
    None if it has something else.

    Raises ValueError for text that looks like a list and cannot be read as one.
    """
    if isinstance(value, str):
        items = list_items(value)
        texts: list[str | None] = [value] if items is None else [*items]
    elif isinstance(value, list):
        texts = [_label(part) for part in value]
    else:
        texts = [_label(value)]
    labels: list[str] = []
    for text in texts:
        if text is None:
            return None
        parts = text.split(separator) if separator else [text]
        labels += [" ".join(part.split()) for part in parts if part.strip()]
    return labels


TEXTS = CellKind(text_of, NEITHER_TEXT_NOR_NUMBER)
NUMBERS = CellKind(number_of, "not a number that float32 holds")
INDICATORS = CellKind(indicator_of, "neither 0 nor 1, which say whether the row has this label")


def labels_between(separator: str | None) -> CellKind:
    """Labels, in text between separators if there is one."""
    return CellKind(partial(labels_of, separator=separator), NEITHER_TEXT_NOR_NUMBER)


def _label(value: Any) -> str | None:
    if isinstance(value, list):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return text_of(value)


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
    """Whether splitting gives numbers or URIs alone or, but for blanks, fewer different labels."""
    parts = {part.strip() for label in labels for part in label.split(separator)}
    if all(map(str.isdecimal, parts)) or all(map(URI.fullmatch, parts)):
        return True
    return separator != " " and len(parts) < len(labels)


def list_items(text: str) -> list[str] | None:
    """The items of a list that is written as text; None if the text does not look like a list.

    Raises ValueError if it does and cannot be read as one.
    """
    text = text.strip()
    if text == EMPTY_VECTOR_OF_R:
        return []
    kind, inner = _unwrapped(text)
    if not kind:
        return None
    items = _items(kind, inner)
    if items is None:
        raise ValueError(f"{shown(text)} looks like a list, but cannot be read as one")
    return items


def _unwrapped(text: str) -> tuple[str, str]:
    """The bracket or the function around the items of a list, and what stands within; both "" if
    the text looks like no list.
    """
    call = CALL.fullmatch(text)
    if call:
        inner = DTYPE_AT_END.sub("", call["inner"]).strip()
        has_brackets = inner[:1] + inner[-1:] in BRACKETS
        return call["name"], inner[1:-1] if has_brackets else inner
    inner = text[1:-1].strip()
    if text[:1] + text[-1:] in BRACKETS:
        is_unquoted = inner[:1] not in ("", "'", '"')
        is_word_in_parentheses = text[0] == "(" and is_unquoted and not _are_numbers(inner)
        if is_word_in_parentheses or (text[0] == "[" and _is_word(inner)):
            return "", ""
        return text[0], inner
    cannot_be_read = START_OF_CUT_LIST.match(text) or OTHER_CALL.fullmatch(text)
    return (text[0], text) if cannot_be_read else ("", "")


def _is_word(inner: str) -> bool:
    """Whether one unquoted word stands within brackets, as in `[deleted]`, that is neither a number
    nor the mark of a missing item.
    """
    is_text = WORD_WITHOUT_LIST_SYNTAX.fullmatch(inner) is not None
    return is_text and _literal("[", inner) is None and inner not in NO_ITEM


def _are_numbers(inner: str) -> bool:
    parts = inner.removesuffix(",").split(",")
    return "," in inner and all(NUMBER.fullmatch(part.strip()) for part in parts)


def _items(kind: str, inner: str) -> list[str] | None:
    """The items between brackets, None if something else stands there: between commas, or between
    blanks as NumPy prints them if all are quoted or all are numbers.
    """
    tokens = _tokens(inner)
    if tokens is None:
        return None
    if any(token["comma"] for token in tokens):
        groups: list[list[re.Match[str]]] = [[]]
        for token in tokens:
            if token["comma"]:
                groups.append([])
            else:
                groups[-1].append(token)
        if not groups[-1]:
            groups.pop()
    else:
        groups = [[token] for token in tokens]
        are_quoted = all(token["quoted"] for token in tokens)
        if len(tokens) > 1 and not (are_quoted or all(map(_is_value, tokens))):
            return None
    has_quotes = any(token["quoted"] for token in tokens)
    items = [_item(kind, group, has_quotes) for group in groups]
    return None if None in items else [item for item in items if item]


def _tokens(inner: str) -> list[re.Match[str]] | None:
    tokens = []
    position = 0
    inner = inner.rstrip()
    while position < len(inner):
        token = TOKEN.match(inner, position)
        if token is None:
            return None
        tokens.append(token)
        position = token.end()
    return tokens


def _is_value(token: re.Match[str]) -> bool:
    """Whether it is a number or stands for a missing one."""
    word = token["word"]
    return word is not None and (word in NO_ITEM or NUMBER.fullmatch(word) is not None)


def _item(kind: str, tokens: list[re.Match[str]], has_quotes: bool) -> str | None:
    """The text of an item, "" for a missing value; None if the tokens are no item."""
    if not tokens:
        return None
    if any(token["quoted"] for token in tokens):
        return _unquoted(tokens[0]["quoted"]) if len(tokens) == 1 else None
    words = [token["word"] for token in tokens]
    if words in [[word] for word in NO_ITEM]:
        return ""
    if len(words) == 1:
        literal = _literal(kind, words[0])
        if literal is not None:
            return literal
    is_quoted_elsewhere = has_quotes and kind != "{"
    has_blanks = len(words) > 1 and kind == "{"
    if kind not in UNQUOTED or is_quoted_elsewhere or has_blanks or "..." in words:
        return None
    return " ".join(words)


def _literal(kind: str, word: str) -> str | None:
    """The number or truth value that a word is, whole numbers without a fraction; else None."""
    if kind == "c":
        whole_of_r = WHOLE_OF_R.fullmatch(word)
        if whole_of_r:
            return whole_of_r[1]
    whole_float = WHOLE_FLOAT.fullmatch(word)
    if whole_float:
        return whole_float[1]
    if NUMBER.fullmatch(word) or word in ("True", "False", "TRUE", "FALSE"):
        return word
    return None


def _unquoted(quoted: str) -> str | None:
    """What a string literal of JSON, Python, R or Postgres says; None if it is none of these."""
    try:
        return str(json.loads(quoted))
    except ValueError:
        pass
    with warnings.catch_warnings():
        # of unknown escapes
        warnings.simplefilter("ignore")
        try:
            value = ast.literal_eval(quoted)
            return value.decode("utf-8") if isinstance(value, bytes) else str(value)
        except (ValueError, SyntaxError):
            return None
