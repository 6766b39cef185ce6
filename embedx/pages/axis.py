"""Axes of charts, and the round numbers beside them."""

import math
from collections.abc import Sequence

N_TICKS = 5
MIN_LOG_TICKS = 3
# Relative difference of scores that are computed in another order.
ROUNDING = 1e-9


class Axis:
    """Values as places between two pixels, in equal steps or by their logarithms.

    low, high   the values at the ends
    start, end  the pixels there
    """

    def __init__(
        self, label: str, low: float, high: float, start: float, end: float, *, is_log: bool = False
    ) -> None:
        if not is_log and high - low <= ROUNDING * max(abs(low), abs(high)):
            # Values that are equal but for rounding are in the middle.
            margin = max(abs(low), abs(high)) or 1.0
            low -= margin
            high += margin
        self.label = label
        self.low = low
        self.high = high
        self.start = start
        self.end = end
        self.is_log = is_log

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        if self.is_log:
            low = math.log(self.low)
            share = (math.log(value) - low) / (math.log(self.high) - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * share, 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels of round numbers."""
        if self.is_log:
            return [(self(value), f"{value:,.15g}") for value in log_ticks(self.low, self.high)]
        values = ticks(self.low, self.high)
        return [(self(value), tick_label(value, values)) for value in values]


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, in equal steps."""
    min_step = (high - low) / N_TICKS
    power = 10.0 ** math.floor(math.log10(min_step))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= min_step)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`: powers of ten, with multiples of them where these are
    fewer than three, or in equal steps where all are.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    for multiples in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        values = [times * 10.0**power for power in powers for times in multiples]
        inside = [value for value in values if low <= value <= high]
        if len(inside) >= MIN_LOG_TICKS:
            return inside
    return ticks(low, high)


def tick_label(value: float, among: Sequence[float]) -> str:
    """A number with as many decimals as distinguish it from the others."""
    step = among[1] - among[0] if len(among) > 1 else 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{round(value, digits) + 0.0:,.{digits}f}"
