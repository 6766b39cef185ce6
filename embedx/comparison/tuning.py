"""What `--tune` does before the runs that are compared: a few short runs of each objective find its learning rate and its
number of negatives, on validation data, which no score is of.

From what the objective has by default, the learning rate is multiplied or divided by STEP, once more in the direction that was
better; then the number of negatives is multiplied, where the objective has one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedx import objectives
from embedx.comparison import runs as running
from embedx.comparison.records import Records
from embedx.comparison.runs import MOST_TRIALS, OF_RATE, Data, typed_options
from embedx.comparison.settings import CompareSettings
from embedx.settings import settings_of
from embedx.training.progress import Progress

STEP = 3.0
SEED = 1
Options = dict[str, Any]  # settings by name


@dataclass(frozen=True)
class Trial:
    """A short run: what was set, what the run had of it (with defaults), and its score, None where it has none."""

    options: Options
    used: Options
    score: float | None

    @property
    def rank(self) -> float:
        """By which trials are compared."""
        return float("-inf") if self.score is None else self.score


def search(try_out: Callable[[Options], Trial], has_negatives: bool) -> Trial:
    """The best of a few trials; the first has no options."""
    best = first = try_out({})
    if (rate := first.used.get("learning_rate")) is not None:
        own = {name: first.used[name] for name in OF_RATE if name in first.used}
        lower, higher = (try_out(own | {"learning_rate": rounded(rate * factor)}) for factor in (1 / STEP, STEP))
        better = max((lower, higher), key=lambda each: each.rank)
        if better.rank > best.rank:
            factor = STEP if better is higher else 1 / STEP
            further = try_out(own | {"learning_rate": rounded(rate * factor * factor)})
            best = max((better, further), key=lambda each: each.rank)
    if has_negatives and (negatives := first.used.get("negatives")) is not None:
        more = try_out(best.options | {"negatives": round(STEP * negatives)})
        best = max((best, more), key=lambda each: each.rank)
    return best


def rounded(rate: float) -> float:
    """A learning rate as one would type it."""
    return float(f"{rate:.3g}")


def tuned(
    data: Data, names: Sequence[str], settings: CompareSettings, folder: Path, records: Records, progress: Progress
) -> dict[str, Options]:
    """The best options of each objective; trials on record are not made again."""
    progress.start("tuning", MOST_TRIALS * len(names), " trials")
    found = {}
    try:
        for k, name in enumerate(names):
            number = iter(range(1, MOST_TRIALS + 1))
            has_negatives = "negatives" in settings_of(objectives.find(name).Settings)
            best = search(_tried(data, name, settings, folder, records, progress, k, number), has_negatives)
            found[name] = best.options
            progress.note(f"{name}: {' '.join(typed_options(best.options)) or 'its defaults are best'}")
    finally:
        progress.finish()
    return found


def _tried(
    data: Data,
    name: str,
    settings: CompareSettings,
    folder: Path,
    records: Records,
    progress: Progress,
    place: int,
    numbers: Iterator[int],
) -> Callable[[Options], Trial]:
    def try_out(options: Options) -> Trial:
        record = records.find_trial(name, options)
        if record is None:
            record = records.add_trial(name, options, running.tried(data, name, SEED, settings, folder, options))
            score = record["score"]
            told = f"{score:.4f}" if score is not None else record.get("failed", "no score")
            progress.note(f"trial of {name}, {' '.join(typed_options(options)) or 'its defaults'}: {told}")
        progress.update(place * MOST_TRIALS + next(numbers))
        return Trial(options, record["used"], record["score"])

    return try_out
