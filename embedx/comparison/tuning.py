"""`--tune`: before the runs that are compared, a few short trials choose the learning rate and the
number of negatives of each objective, by the score on validation data, which the comparison does
not score.

From the objective's defaults, the learning rate is multiplied and divided by STEP, and once more in
the direction that scored better; then the number of negatives is multiplied, if the objective has
them.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from embedx import objectives
from embedx.comparison import runs
from embedx.comparison.data import Data
from embedx.comparison.records import FAILED, Records, Run
from embedx.comparison.runs import CHOSEN_WITHOUT_RATE
from embedx.comparison.settings import CompareSettings
from embedx.errors import Setting, Text, joined
from embedx.runtime.progress import Progress
from embedx.settings import settings_of

STEP = 3.0
Options = dict[str, Any]  # settings by name


def tuned(
    data: Data,
    names: Sequence[str],
    settings: CompareSettings,
    folder: Path,
    records: Records,
    progress: Progress,
) -> dict[str, Options]:
    """The best options of each objective; empty where its defaults are best. Recorded trials are
    not repeated.
    """
    progress.start("tuning", len(names), " objectives")
    found = {}
    try:
        for k, name in enumerate(names):

            def trial_of(options: Options, name: str = name) -> Run:
                trial = records.find(objective=name, trial=options)
                if trial is None:
                    trial = records.add(
                        runs.tried(data, name, settings, folder, options),
                        objective=name,
                        trial=options,
                    )
                    failed = next(
                        (f"{kind}: {trial[kind]}" for kind in FAILED if kind in trial), "no score"
                    )
                    outcome = failed if trial["score"] is None else f"{trial['score']:.4f}"
                    progress.note(f"trial of {name}, ", settings_in_words(options), f": {outcome}")
                return trial

            has_negatives = "negatives" in settings_of(
                objectives.find(data.variant(name)[0]).Settings
            )
            found[name] = search(trial_of, has_negatives)["trial"]
            progress.note(f"{name}: best with ", settings_in_words(found[name]))
            progress.update(k + 1)
    finally:
        progress.finish()
    return found


def search(trial_of: Callable[[Options], Run], has_negatives: bool) -> Run:
    """The best of at most MAX_TRIALS trials, each the record of its options; the first has none."""
    best = first = trial_of({})
    used = first["used"]
    if "learning_rate" in used:
        chosen = {name: used[name] for name in CHOSEN_WITHOUT_RATE if name in used}

        def at(factor: float) -> Run:
            return trial_of(
                chosen | {"learning_rate": float(f"{used['learning_rate'] * factor:.3g}")}
            )

        lower, higher = at(1 / STEP), at(STEP)
        better, factor = (lower, 1 / STEP) if rank(lower) >= rank(higher) else (higher, STEP)
        if rank(better) > rank(best):
            best = max(better, at(factor * factor), key=rank)
    if has_negatives and "negatives" in used:
        best = max(
            best, trial_of(best["trial"] | {"negatives": round(STEP * used["negatives"])}), key=rank
        )
    return best


def rank(trial: Run) -> float:
    """The score by which trials are compared."""
    return -math.inf if trial["score"] is None else float(trial["score"])


def settings_in_words(options: Options) -> Text:
    """Options for a message."""
    settings = [Setting(name, value) for name, value in options.items()]
    return joined(settings, " ") if settings else "its defaults"
