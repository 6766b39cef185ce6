"""`--tune`: short trials choose learning rate and number of negatives of each objective before the
runs that are compared, by the score on validation data, which the comparison does not score.

From the objective's defaults, the learning rate is multiplied and divided by STEP, and once more in
the direction that scored better; then the number of negatives is multiplied, if the objective has
them. Short trials favour high rates, which train faster and end worse; so the best options and the
defaults are both trained at full length, and the better are kept.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from embedx import objectives
from embedx.comparison.records import FAILED, Records, RunRecord
from embedx.comparison.runs import CHOSEN_WITHOUT_RATE, Runner
from embedx.errors import Setting, Text, joined, text_from_json
from embedx.runtime.progress import Progress
from embedx.settings import Record, settings_of

STEP = 3.0


@dataclass(frozen=True)
class Tuning:
    """The trials of a comparison. Recorded ones are not repeated."""

    runner: Runner
    records: Records
    progress: Progress

    def best_options(self, names: Sequence[str]) -> dict[str, Record]:
        """The best options of each objective; empty where its defaults are best."""
        self.progress.start("tuning", len(names), "objectives")
        best = {}
        try:
            for k, name in enumerate(names, 1):
                best[name] = self._best_of(name)
                self.progress.note(f"{name}: best with ", settings_in_words(best[name]))
                self.progress.update(k)
        finally:
            self.progress.finish()
        return best

    def _best_of(self, name: str) -> Record:
        """The best options of an objective; none where its defaults score better at full length."""
        objective, _ = self.runner.data.variant(name)
        has_negatives = "negatives" in settings_of(objectives.find(objective).Settings)
        best = search(lambda options: self._trial(name, options), has_negatives)
        options = options_of(best)
        settings = self.runner.settings
        trials_are_shorter = settings.limit_of_trial != settings.limit
        if not options or not trials_are_shorter or self._is_better_at_full_length(name, options):
            return options
        return {}

    def _is_better_at_full_length(self, name: str, options: Record) -> bool:
        """Whether options score better than the defaults in trials as long as a run."""
        tuned = self._trial(name, options, is_full=True)
        default = self._trial(name, {}, is_full=True)
        return score_of(tuned) > score_of(default)

    def _trial(self, name: str, options: Record, *, is_full: bool = False) -> RunRecord:
        """The record of a trial; runs it if it is not recorded.

        is_full  whether it is as long as a run of the comparison
        """
        key = {"objective": name, "trial": options, "full": is_full}
        trial = self.records.find(**key)
        if trial is None:
            settings = self.runner.settings
            limit = settings.limit if is_full else settings.limit_of_trial
            trial = self.records.add(self.runner.run_trial(name, options, limit), **key)
            length = "trial at full length" if is_full else "trial"
            words = settings_in_words(options)
            self.progress.note(f"{length} of {name}, ", words, ": ", outcome_in_words(trial))
        return trial


def search(trial_of: Callable[[Record], RunRecord], has_negatives: bool) -> RunRecord:
    """The best of a few trials, each the record of its options; the first has none."""
    first = trial_of({})
    used = first["used"]
    best = first
    if "learning_rate" in used:
        best = search_rate(trial_of, first)
    if has_negatives and "negatives" in used:
        more_negatives = {"negatives": round(STEP * used["negatives"])}
        best = better(best, trial_of(options_of(best) | more_negatives))
    return best


def search_rate(trial_of: Callable[[Record], RunRecord], first: RunRecord) -> RunRecord:
    """The best trial over learning rates, the first one among them."""
    used = first["used"]
    others = {name: used[name] for name in CHOSEN_WITHOUT_RATE if name in used}

    def with_factor(factor: float) -> RunRecord:
        rate = float(f"{used['learning_rate'] * factor:.3g}")
        return trial_of({**others, "learning_rate": rate})

    lower = with_factor(1 / STEP)
    higher = with_factor(STEP)
    is_lower_better = score_of(lower) >= score_of(higher)
    factor = 1 / STEP if is_lower_better else STEP
    neighbour = lower if is_lower_better else higher
    if score_of(neighbour) <= score_of(first):
        return first
    return better(neighbour, with_factor(factor * factor))


def better(trial: RunRecord, other: RunRecord) -> RunRecord:
    """The trial of the higher score; of equal ones the first."""
    return max(trial, other, key=score_of)


def options_of(trial: RunRecord) -> Record:
    """The options that a trial was run with, as it was recorded; the first trial has none."""
    options: Record = trial["trial"]
    return options


def score_of(trial: RunRecord) -> float:
    """The score of a trial; -inf if it has none, so that any other one is better."""
    return -math.inf if trial["score"] is None else float(trial["score"])


def settings_in_words(options: Record) -> Text:
    """Settings for a message."""
    settings = [Setting(name, value) for name, value in options.items()]
    return joined(settings, " ") if settings else "its defaults"


def outcome_in_words(trial: RunRecord) -> Text:
    """The score of a trial, or the reason that it has none."""
    if trial["score"] is not None:
        return f"{trial['score']:.4f}"
    for kind in FAILED:
        if kind in trial:
            return (f"{kind}: ", text_from_json(trial[kind]))
    return "no score"
