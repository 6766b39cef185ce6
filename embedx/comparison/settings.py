"""Settings of `embedx compare`, and the names of those that it passes to each run."""

from functools import partial

from embedx.errors import InapplicableError, Setting, counted
from embedx.graphs.settings import GraphSettings
from embedx.runtime.cores import usable_cores
from embedx.runtime.progress import clock
from embedx.settings import MAX_THREADS, Record, Settings, fraction, param, seconds, settings_of
from embedx.text.held_out import MIN_SPANS, USUAL_SHARE

# Default number of seconds for each run.
BUDGET = 60.0
# On text of fewer words that time is dozens of epochs, which overfit: on 5 million words ns did not
# beat the unigram baseline after 20 (explored, not on record).
SHORT_TEXT = 10_000_000
# Objectives that are compared if none are named, and up to how many labels or words softmax, which
# scores all of them, is among these.
USUAL_OBJECTIVES = ("ns", "hs", "ar", "ove", "implicit", "ldgs")
EXACT_OBJECTIVE = "softmax"
MAX_SCORED = 1000
# Maximum number of trials of an objective, with --tune.
MAX_TRIALS = 5
# Settings that are passed to runs on text, and below to runs on labelled data.
TEXT_SETTINGS = (
    "dim",
    "window",
    "subwords",
    "buckets",
    "sample",
    "tokenizer",
    "lowercase",
    "normalize",
    "format",
    "on_bad_utf8",
    "min_count",
    "max_vocab",
    *settings_of(GraphSettings),
)
TABLE_SETTINGS = (
    "text_column",
    "label_column",
    "id_column",
    "label_separator",
    "feature_columns",
    "header",
)
LABEL_SETTINGS = ("labels", "unseen", "scaling", "hidden", *TABLE_SETTINGS)
# Settings that this command takes by --set.
GIVEN_BY_SET = {"validation", "validation_labels", *TEXT_SETTINGS, *LABEL_SETTINGS} - {
    "dim",
    "hidden",
}


class CompareSettings(Settings):
    """How objectives are compared, whatever the data."""

    time_budget: float | None = param(
        None,
        f"training time of each run: 90s, 5m, 2h; by default {BUDGET:.0f}s, on text of less"
        f" than {SHORT_TEXT / 1e6:g} million words the epochs of `embedx train`, as more overfit",
        above=0.0,
        parse=seconds,
        metavar="duration",
    )
    epochs: int | None = param(None, "epochs of each run, instead of --time-budget", at_least=1)
    seeds: int = param(3, "runs of each objective, with seeds 1, 2, ...", at_least=1)
    threads: int | None = param(
        None, "threads of each run; by default one per usable core", at_least=1, at_most=MAX_THREADS
    )
    tune: float | None = param(
        None,
        "fraction of each objective's time, such as 30%, spent on tuning its learning rate and"
        " number of negatives on validation data; with --epochs, the fraction of the epochs of each"
        " trial. The best settings are kept if two more runs, of full length, show them better than"
        " the defaults",
        above=0.0,
        at_most=0.9,
        parse=partial(fraction, setting="tune"),
        metavar="fraction",
    )
    heldout: float | None = param(
        None,
        "text: fraction held out of training and scored, such as 1%; by default"
        f" {USUAL_SHARE:.0%}, more of less than {MIN_SPANS / USUAL_SHARE / 1000:g} million words",
        above=0.0,
        at_most=0.5,
        parse=fraction,
        metavar="fraction",
        panel="Held-out data",
    )
    validation: str | None = param(
        None,
        "labels: validation data for the learning curves, a file or a fraction of the training"
        " rows; the parameters of the best epoch are kept; 0 for none; by default 0.1, but at most"
        " 2,000 rows",
        metavar="path|fraction",
    )
    validation_labels: str | None = param(
        None, "labels of the validation file", metavar="path", has_option=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epochs is not None and self.time_budget is not None:
            problem = ("and ", Setting("time_budget"), " both say when to stop")
            raise InapplicableError("epochs", None, problem, "give one of them")

    @property
    def given_limit(self) -> Record:
        """The setting that ends each run; empty if it is the default."""
        if self.epochs is None and self.time_budget is None:
            return {}
        return self.limit

    @property
    def limit(self) -> Record:
        """The setting that ends each run."""
        if self.epochs is not None:
            return {"epochs": self.epochs}
        return {"time_budget": self.budget}

    def plan(self, n_objectives: int) -> str:
        """The training of a comparison: `2 objectives × 3 seeds × 60 s = 6:00 of training`."""
        runs = f"{counted(n_objectives, 'objective')} × {counted(self.seeds, 'seed')}"
        n_runs = n_objectives * self.seeds
        if self.epochs is None:
            return self._plan_by_time(runs, n_runs, n_objectives)
        length = counted(self.epochs, "epoch")
        total = counted(n_runs * self.epochs, "epoch")
        plan = f"{runs} × {length} = {total} of training"
        if self.tune:
            trials = counted(n_objectives * MAX_TRIALS, "trial")
            plan += f", and at most {trials} and {full_trials(n_objectives)}"
        return plan

    def _plan_by_time(self, runs: str, n_runs: int, n_objectives: int) -> str:
        budget = self.time_budget or BUDGET
        total = clock(n_runs * budget)
        on_top = "reading and scoring come on top"
        if self.tune:
            on_top = f"reading, scoring and {full_trials(n_objectives)} come on top"
        return f"{runs} × {budget:g} s = {total} of training (minutes:seconds); {on_top}"

    @property
    def budget(self) -> float:
        """Seconds of training of a run that is ended by time."""
        return (self.time_budget or BUDGET) * (1 - (self.tune or 0.0))

    @property
    def limit_of_trial(self) -> Record:
        """The setting that ends each trial of --tune; MAX_TRIALS of them take its fraction of an
        objective's time.
        """
        share = self.tune or 0.0
        if self.epochs is not None:
            return {"epochs": max(1, round(self.epochs * share))}
        budget = (self.time_budget or BUDGET) * self.seeds * share / MAX_TRIALS
        return {"time_budget": float(f"{budget:.3g}")}

    @property
    def used_threads(self) -> int:
        return self.threads or usable_cores()


def full_trials(n_objectives: int) -> str:
    """The trials of --tune at full length, in words."""
    return f"at most {2 * n_objectives} more runs that check what was tuned"


VALIDATION_SETTINGS = ("validation", "validation_labels", "patience")
# Not settings of a variant.
SETTINGS_OF_ALL_RUNS = {
    *settings_of(CompareSettings),
    *VALIDATION_SETTINGS,
    "seed",
    "labels",
    "unseen",
    "heldout_points",
}
