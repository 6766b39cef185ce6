"""What training on a corpus will take here: memory and disk as they are reckoned, time from a moment of real training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedx.objectives.contract import Objective
from embedx.settings import TextSettings, VocabularySettings
from embedx.skipgram.memory import memory_plan, on_disk
from embedx.skipgram.run import Task
from embedx.skipgram.settings import SkipGramSettings, suited
from embedx.skipgram.task import prepared
from embedx.storage.disk import free_disk
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.vocabulary import kept_counts
from embedx.training.checkpoint import KEPT
from embedx.training.progress import Progress, Silent

TRIAL = 2.0  # seconds of training
WARM_UP = 0.3  # seconds before, in which memory is touched for the first time
CHECKPOINTS = KEPT + 1  # with one that is being written


@dataclass(frozen=True)
class Estimate:
    """What a run will take."""

    words: int  # of the vocabulary
    tokens: int  # of these words, in the corpus
    kept: int  # of these, after subsampling
    memory: dict[str, int]  # bytes by purpose, beside what the program has
    available: int  # bytes that are free
    fits: bool  # whether there is so much memory
    disk: dict[str, int]  # bytes by purpose
    disk_free: int  # where the model is written
    threads: int
    words_per_second: float | None  # None where it was not timed
    seconds: float | None  # of training
    epochs: float
    why_untimed: str = ""


def estimate(
    corpus: EncodedCorpus,
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
    plan, _ = memory_plan(task)
    untimed, speed = "", None
    if not plan.fits:
        untimed = "there is not as much memory"
    elif task.warm_up is not None:
        untimed = f"--sampler {task.sampler.name} begins later in the run, by what was learned until then"
    else:
        speed = words_per_second(task, progress)
    needed: float | None = None
    epochs = float(task.settings.epochs)
    if speed is not None:
        needed = task.settings.time_budget or task.n_trained_words * epochs / speed
        epochs = needed * speed / task.n_trained_words
    model, state = on_disk(task)
    return Estimate(
        words=len(task.words),
        tokens=task.words.n_tokens,
        kept=int(kept_counts(task.words.trained_counts, vocabulary.sample).sum()),
        memory={name: round(size) for name, size in plan.parts.items()},
        available=plan.available,
        fits=plan.fits,
        disk={"model": model, "checkpoints": CHECKPOINTS * state, "encoded text": corpus.bytes},
        disk_free=free_disk(output),
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
    task.progress = progress  # reports that kernels are compiled
    task.trial(WARM_UP)
    outcome = task.trial(TRIAL)
    progress.update(outcome.seconds)
    progress.finish()
    return outcome.tally.words / max(outcome.seconds, 1e-9)
