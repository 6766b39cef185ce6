"""The time that an example takes of papers_ldgs.py: medians over turns, with the batch that is a contender's best."""

import statistics
from typing import NamedTuple

from eval.page import DASH, table, target
from eval.records import Records, Result


class Speed(NamedTuple):
    """What a contender takes, with the batch that is its best: medians over turns."""

    an_example: float  # seconds
    once: float
    batch: int
    turns: int


def speeds(records: Records, section: str, n_labels: int, threads: int) -> dict[str, Speed]:
    """Of each contender."""
    turns: dict[tuple[str, int], list[Result]] = {}
    for each in records.find(section="speed", what=section, labels=n_labels, threads=threads):
        turns.setdefault((each["job"]["contender"], each["job"]["batch"]), []).append(each["result"])
    best: dict[str, Speed] = {}
    for (name, batch), values in turns.items():
        an_example, once = (statistics.median(value[each] for value in values) for each in ("seconds", "once"))
        if name not in best or an_example < best[name].an_example:
            best[name] = Speed(an_example, once, batch, len(values))
    return best


def speed_table(records: Records) -> str:
    """The time per example beside ldgs."""
    rows = []
    cases = {tuple(each["job"][name] for name in ("what", "labels", "threads")) for each in records.find(section="speed")}
    for section, n_labels, threads in sorted(cases):
        found = speeds(records, section, n_labels, threads)
        own = found.get("ldgs")
        rows += [
            {"data": section, "labels": f"{n_labels:,}", "threads": threads, "contender": f"`{name}`", "batch": each.batch,
             "milliseconds an example": f"{1000 * each.an_example:.3f}", "seconds once": f"{each.once:.1f}",
             "over `ldgs`": f"{each.an_example / own.an_example:.2f}" if own else DASH, "turns": each.turns}
            for name, each in found.items()
        ]  # fmt: skip
    return table(rows)


def faster(records: Records, section: str, n_labels: int, against: str, factor: float, promise: str) -> dict[str, str]:
    """Whether ldgs takes so much less time per example, with all threads."""
    threads = [
        each["job"]["threads"] for each in records.find(section="speed", what=section, labels=n_labels, contender="ldgs")
    ]
    there = speeds(records, section, n_labels, max(threads, default=0))
    if not {"ldgs", against} <= there.keys():
        return target(promise, None)
    ratio = there[against].an_example / there["ldgs"].an_example
    return target(promise, f"{ratio:.1f} times", ratio >= factor)
