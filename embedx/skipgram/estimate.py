"""What training on a corpus will take here: memory and disk as they are reckoned, time from a moment of real training."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embedx.objectives.contract import Objective
from embedx.run.memory import available_memory, memory_in_use
from embedx.run.progress import Progress, Silent
from embedx.settings import TextSettings, VocabularySettings
from embedx.skipgram.task import OF_TABLES, SkipGramSettings, Task, prepared, suited
from embedx.text import cache
from embedx.text.vocabulary import kept_counts

TRIAL = 2.0  # seconds of training
WARM_UP = 0.3  # seconds before, in which memory is touched for the first time
CHECKPOINTS = 2  # that are kept
COUNTS = 8  # bytes
MAPPED = "encoded text"  # is in memory as far as there is room


@dataclass(frozen=True)
class Estimate:
    """What a run will take."""

    words: int  # of the vocabulary
    tokens: int  # of these words, in the corpus
    kept: int  # of these, after subsampling
    memory: dict[str, int]  # bytes by purpose, the most at a time, with all that the process has
    available: int  # bytes, with what this process has already
    disk: dict[str, int]  # bytes by purpose
    disk_free: int  # where the model is written
    threads: int
    words_per_second: float | None  # None where it was not timed
    seconds: float | None  # of training
    epochs: float
    why_untimed: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain types, by name."""
        return asdict(self)


def estimate(
    corpus: cache.EncodedCorpus,
    objective: Objective,
    settings: SkipGramSettings,
    *,
    sampler_options: Mapping[str, Any] | None = None,
    text: TextSettings,
    vocabulary: VocabularySettings,
    output: Path,
    progress: Progress | None = None,
) -> Estimate:
    """What `train` with the same arguments will take, and saving to the folder `output`. Trains for a few seconds."""
    progress = progress or Silent()
    task = prepared(corpus, objective, suited(settings, objective), sampler_options or {}, text, vocabulary, Silent())
    of_tables = task.memory()
    own, of_files = memory_in_use()
    copy = sum(of_tables[name] for name in OF_TABLES)
    available = available_memory()
    in_all = available + own + of_files
    untimed = ""
    if sum(of_tables.values()) > available:
        untimed = "there is not as much memory"
    elif task.warm_up is not None:
        untimed = f"--sampler {task.sampler.name} begins later in the run, by what was learned until then"
    speed: float | None = None
    if not untimed:
        speed = words_per_second(task, progress)
        # With compiled kernels, which were not there before.
        own = max(own, memory_in_use()[0] - round(sum(of_tables.values()) - of_tables["saving"] - of_tables["testing"]))
    needed: float | None = None
    epochs = float(task.settings.epochs)
    if speed is not None:
        needed = task.settings.time_budget or task.n_trained_words * epochs / speed
        epochs = needed * speed / task.n_trained_words
    has_room = sum(of_tables.values()) + copy <= available
    n_words, n_rows = len(task.words), len(task.tables.outputs.rows)
    numbers = (n_words + n_rows) * task.settings.dim + (n_rows if task.settings.bias != "none" else 0)
    if task.buckets is not None:
        numbers += len(task.tables.inputs.rows) * task.settings.dim + len(task.buckets)
    return Estimate(
        words=n_words,
        tokens=task.words.n_tokens,
        kept=int(kept_counts(task.words.trained_counts, vocabulary.sample).sum()),
        memory={
            "program and words": own + of_files,
            MAPPED: corpus.bytes,
            **{name: round(size) for name, size in of_tables.items() if size},
            **({"a copy to go back to": round(copy)} if has_room else {}),
        },
        available=in_all,
        disk={
            "encoded text": corpus.bytes,
            "model": 4 * numbers
            + COUNTS * n_words
            + sum(len(word.encode("utf-8", "surrogatepass")) + 1 for word in task.words.words),
            "checkpoints": CHECKPOINTS * round(copy),
        },
        disk_free=shutil.disk_usage(_existing(output)).free,
        threads=int(task.settings.threads or 1),
        words_per_second=speed,
        seconds=needed,
        epochs=epochs,
        why_untimed=untimed,
    )


def words_per_second(task: Task, progress: Progress) -> float:
    """How fast training goes; the task's tables are changed by it."""
    progress.start("timing", TRIAL, "s")
    task.initialise()
    task.progress = progress  # which tells that kernels are compiled
    task.trial(WARM_UP)
    outcome = task.trial(TRIAL)
    progress.update(outcome.seconds)
    progress.finish()
    return outcome.tally.words / max(outcome.seconds, 1e-9)


def _existing(path: Path) -> Path:
    """The folder of a path that is there."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.is_dir())
