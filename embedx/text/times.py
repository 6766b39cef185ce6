"""Parses times in the forms that other programs write: numbers, whose unit is recognised, and
dates.

Numbers count seconds, milliseconds, microseconds or nanoseconds since 1970, whichever unit gives a
year from 1973 to 5138, or days since 1900, as spreadsheets store dates. Smaller numbers count
seconds. Dates are in ISO 8601, or in one of DATE_FORMATS. Without a zone, a date is UTC.
"""

import array
import datetime
import math
from collections.abc import Callable

import numpy as np

from embedx.errors import DataError, Setting, choice

UTC = datetime.UTC
# in seconds
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "days": 86_400.0}
UNIT_NAMES = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "days": "days",
}
# The smallest number of each unit that counts since 1970.
SINCE_1970 = {"s": 1e8, "ms": 1e11, "us": 1e14, "ns": 1e17}
# From 1954 to 2119.
SPREADSHEET_DAYS = (20_000, 80_000)
# From the first day of spreadsheets.
DAYS_TO_1970 = 25_569
# Dates without separators, by the number of their digits.
DIGITS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
DAYS = (
    *("%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y"),
    *("%m-%d-%Y", "%d-%m-%Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y", "%d %B %Y"),
    *("%B %d, %Y", "%a, %d %b %Y"),
)
DATE_FORMATS = (
    *(day + clock + zone for day in DAYS for clock in CLOCKS for zone in ("", " %z")),
    *("%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %z %Y"),
)


class Times:
    """The times of a column, read one by one; `seconds` when all are there.

    unit  of numbers, one of UNITS; None: recognised
    """

    def __init__(self, unit: str | None = None) -> None:
        if unit is not None and unit not in UNITS:
            raise ValueError(choice(unit, UNITS))
        self.unit = unit
        # for each way of reading that fits all times so far, its results
        self._read: dict[str, tuple[Callable[[str], float], array.array[float]]] = {}
        self._n = 0

    def add(self, text: str) -> None:
        """Read a time. Raises ValueError if it is not a time, or not in the form of the previous
        ones.
        """
        fits = {}
        for name, (read, values) in self._candidates().items():
            try:
                value = read(text)
            except (ValueError, OverflowError):
                continue
            if math.isfinite(value):
                values.append(value)
                fits[name] = (read, values)
        if not fits:
            raise ValueError("no time" if self._n == 0 else f"but those before are {self._form}")
        self._read = fits
        self._n += 1

    @property
    def _form(self) -> str:
        """The form in which the times so far were read."""
        name = next(iter(self._read))
        return name if name in ("numbers", "dates without separators") else f"dates ({name})"

    def _candidates(self) -> dict[str, tuple[Callable[[str], float], "array.array[float]"]]:
        if self._n:
            return self._read
        ways: dict[str, Callable[[str], float]] = {"numbers": float}
        if self.unit is None:
            ways["dates without separators"] = _of_digits
        ways["ISO 8601"] = _of_iso
        ways |= {form: _by_format(form) for form in DATE_FORMATS}
        return {name: (read, array.array("d")) for name, read in ways.items()}

    def seconds(self, file: str) -> tuple[np.ndarray, str]:
        """The times in seconds, float64 (n,), and the form in which they were read. Raises
        `DataError` if the form is ambiguous.
        """
        name = next(
            name
            for name in ("dates without separators", "numbers", "ISO 8601", *DATE_FORMATS)
            if name in self._read
        )
        values = np.asarray(self._read[name][1])
        if name == "numbers":
            return self._of_numbers(values, file)
        for other in self._read:
            if other in DATE_FORMATS and not np.array_equal(values, self._read[other][1]):
                raise DataError(
                    file,
                    None,
                    f"the dates may be {name} or {other}: which number is the month is not certain",
                    (
                        "write dates as 2026-01-31T12:00, or leave the time out of ",
                        Setting("columns"),
                        ": then rows are in the order of the file",
                    ),
                )
        return values, f"dates ({name})"

    def _of_numbers(self, numbers: np.ndarray, file: str) -> tuple[np.ndarray, str]:
        unit = self.unit or _unit_of(numbers, file)
        if unit == "days":
            return (numbers - DAYS_TO_1970) * UNITS[unit], "days since 1900"
        are_dates = np.median(numbers) >= SINCE_1970["s"]
        since = " since 1970" if are_dates else ""
        return numbers * UNITS[unit], UNIT_NAMES[unit] + since


def _unit_of(numbers: np.ndarray, file: str) -> str:
    """The unit of numbers, by their size."""
    low, high = SPREADSHEET_DAYS
    if low <= numbers.min() and numbers.max() < high and (numbers % 1 > 0).any():
        return "days"
    limits = np.array(list(SINCE_1970.values()))
    kinds = np.searchsorted(limits, numbers[numbers >= limits[0]], side="right")
    if len(np.unique(kinds)) > 1:
        raise DataError(
            file,
            None,
            f"times of different units, from {numbers.min():.15g} to {numbers.max():.15g}",
            "give them in one unit",
        )
    return list(SINCE_1970)[kinds[0] - 1] if len(kinds) else "s"


def _of_digits(text: str) -> float:
    """20260131, 202601311200 or 20260131120000, of the years 1900 to 2099."""
    form = DIGITS.get(len(text))
    if form is None or not (text.isdecimal() and text[:2] in ("19", "20")):
        raise ValueError
    return _timestamp(datetime.datetime.strptime(text, form))


def _of_iso(text: str) -> float:
    if text.isdecimal():
        raise ValueError
    for zone in (" UTC", " GMT"):
        text = text.removesuffix(zone)
    return _timestamp(datetime.datetime.fromisoformat(text.strip()))


def _by_format(form: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        return _timestamp(datetime.datetime.strptime(text.strip().replace("GMT", "+0000"), form))

    return read


def _timestamp(date: datetime.datetime) -> float:
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
