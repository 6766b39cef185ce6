"""Guesses which columns of a table of events are user, item and time: by their names or, in a table
without a heading, by their values.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from embedx.text.times import SINCE_1970, Times

# Exact names, which come before all others.
USUAL_NAMES = ("user", "item", "time")
# Last words of names without those of IDENTIFIERS, the preferred ones first. Sessions and orders
# come before users: they are the sessions that are looked for.
# English, then German, French, Spanish, Italian, Portuguese, Dutch and Polish.
SESSIONS = """
    session visit basket cart order invoice transaction receipt
    bestellung bestell auftrag warenkorb beleg rechnung commande panier facture pedido carrito
    factura compra ordine carrello fattura fatura bestelling winkelwagen factuur zamówienie koszyk
    faktura
"""
PEOPLE = """
    user customer client visitor member buyer shopper account
    kunde kunden benutzer nutzer mitglied utilisateur acheteur cliente usuario utente usuário klant
    gebruiker klient
"""
ITEMS = """
    item product article sku stock asin isbn movie track song
    artikel produkt produit artículo articulo producto articolo prodotto artigo produto towar
    description
"""
TIMES = """
    timestamp datetime date time at ts day when
    datum zeit zeitpunkt fecha hora data ora tijd
"""
WORDS_BY_ROLE = {
    "user": [*SESSIONS.split(), *PEOPLE.split()],
    "item": ITEMS.split(),
    "time": TIMES.split(),
}
NOUNS = {*WORDS_BY_ROLE["user"], *WORDS_BY_ROLE["item"]}
IDENTIFIERS = {"id", "ids", "no", "nr", "number", "nummer", "code", "key", "uuid", "name", "title"}
# `Stock` and `Code` of StockCode.
WORD = re.compile(r"[A-ZÀ-ÖØ-Þ]*[^\W\d_A-ZÀ-ÖØ-Þ]+|[A-ZÀ-ÖØ-Þ]+")


def guess_columns(row: Mapping[str, Any]) -> list[str] | None:
    """The columns of user and item and, if there is one, of time; None if it is not clear.

    row  the first row by column; columns without names are numbered from 1
    """
    if all(map(str.isdecimal, row)):
        return guess_by_values([str(value) for value in row.values()])
    return guess_by_names(list(row))


def guess_by_names(columns: Sequence[str]) -> list[str] | None:
    """The columns whose names are usual for user, item and time."""
    exact = [name for name in USUAL_NAMES if name in columns]
    if exact[:2] == ["user", "item"]:
        return exact
    last_words = {column: last_word(column) for column in columns}
    by_role = {}
    for role, words in WORDS_BY_ROLE.items():
        named = [column for word in words for column in columns if last_words[column] == word]
        if named:
            by_role[role] = named[0]
    return list(by_role.values()) if {"user", "item"} <= by_role.keys() else None


def last_word(name: str) -> str:
    """The last word of a name in lower case and singular, without identifiers: `order` of
    `Order ID`, `stock` of `StockCode`, `date` of `eventdate`.
    """
    words = [word.lower() for word in WORD.findall(name)]
    while len(words) > 1 and words[-1] in IDENTIFIERS:
        words.pop()
    word = words[-1] if words else ""
    for end in ("timestamp", "date", "time"):
        if word.endswith(end):
            return end
    for end in IDENTIFIERS:
        # orderid
        if word.endswith(end) and word.removesuffix(end) in NOUNS:
            return word.removesuffix(end)
    return word.removesuffix("s") if word != "ts" else word


def guess_by_values(values: Sequence[str]) -> list[str] | None:
    """The numbers of the columns, from 1: of two, user and item; of three, the one with the time is
    the last, and the others are user and item in their order.
    """
    numbers = [str(k) for k in range(1, len(values) + 1)]
    if len(values) == 2:
        return numbers
    dates = [number for number, value in zip(numbers, values, strict=True) if is_date(value)]
    moments = [
        number for number, value in zip(numbers, values, strict=True) if is_since_1970(value)
    ]
    times = dates or moments
    if len(values) != len(USUAL_NAMES) or len(times) != 1:
        return None
    return [number for number in numbers if number not in times] + times


def is_heading(row: Sequence[str]) -> bool:
    """Whether the first row of a table names the columns: none of its cells is a number or a
    date.
    """
    return not any(is_number(cell) or is_date(cell) for cell in row)


def is_number(text: str) -> bool:
    """Whether a cell is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_date(text: str) -> bool:
    """Whether a cell is a date, not a number."""
    try:
        Times().add(text)
    except ValueError:
        return False
    return not is_number(text)


def is_since_1970(text: str) -> bool:
    """Whether a cell is a number as large as those that count seconds or less since 1970."""
    return is_number(text) and float(text) >= SINCE_1970["s"]
