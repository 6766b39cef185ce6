"""The task of word vectors: from corpora to a trained model, one call.

corpora -> encoded tokens -> vocabulary -> [engine: blocks of skip-gram pairs] -> model
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedx import samplers
from embedx.engine import subwords
from embedx.errors import DivergedError
from embedx.skipgram.callbacks import Callback
from embedx.skipgram.configuration import Configuration, by_size, resolved, warn_of_rate
from embedx.skipgram.run import Task
from embedx.skipgram.tables import SMALLER, empty_tables
from embedx.text.encode import Corpora, encode
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.heldout import hold_out
from embedx.text.ngrams import encoded
from embedx.text.subsampling import NO_PAIR_KEPT, context_words
from embedx.text.vocabulary import kept_counts, listed, select
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.guard import SLACK
from embedx.training.interrupts import to_the_end
from embedx.training.memory import MemoryPlan, available_memory
from embedx.training.progress import Progress, Silent
from embedx.training.strategy import Strategy
from embedx.vectors import model

MANY_WORDS = 20_000


@dataclass(frozen=True)
class TrainedVectors:
    """A trained model and how its training went."""

    vectors: model.WordVectors
    outcome: trainer.Outcome


def train(
    corpora: Corpora,
    config: Configuration,
    *,
    progress: Progress | None = None,
    cache_dir: Path | None = None,
    snapshot: Mapping[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
    callbacks: Iterable[Callback] = (),
    wrap: Callable[[Task], Strategy] | None = None,
) -> TrainedVectors:
    """Word vectors of `corpora`: what the command line takes (paths, globs, URLs, recipes, "-"), or an iterable of token lists.

    snapshot     of the `outcome.state` of a run with the same configuration on the same corpora, to resume
    checkpoints  keep its state on disk
    callbacks    are called after each epoch, and may end the training
    wrap         makes the strategy that trains a prepared run, in place of its own, with one thread's memory here
    Raises `EmbedxError` for what the user can mend and `DivergedError` when training diverges, at lower rates too, with nothing
    learned. Where something was, that is returned, with the reason in the outcome; Ctrl-C likewise ends the training early
    with what was learned so far, and is raised if that is nothing.
    """
    progress = progress or Silent()
    with encoded_corpus(corpora, config, progress, cache_dir) as corpus:
        if wrap is not None:
            config = replace(config, settings=replace(config.settings, threads=1))
        task = prepared(corpus, config, progress)
        task.check_pairs()
        task.plan = task.memory_plan()
        task.plan.check(task.size, SMALLER)
        if checkpoints is not None:
            checkpoints.check_disk(*task.on_disk())
        task.initialise()
        strategy = wrap(task) if wrap is not None else task.strategy()
        outcome = task.run(strategy, snapshot, checkpoints, tuple(callbacks))
        outcome.check_trained(NO_PAIR_KEPT if outcome.tally.words else trainer.NO_TIME)
        to_the_end(lambda: _check_finite(task))
        vectors = task.model(outcome)
        if task.heldout is not None and outcome.interrupted_by is None:
            found = vectors.facts["heldout"] = to_the_end(task.heldout_metrics)
            if config.objective.calibrated and outcome.diverged is None:
                outcome.diverged = _check_heldout(found, task, outcome)
    return TrainedVectors(vectors, outcome)


def encoded_corpus(corpora: Corpora, config: Configuration, progress: Progress, cache_dir: Path | None) -> EncodedCorpus:
    """The corpora as token ids, with collocations joined: those found in them, or those of the model to start from."""
    phrases = config.start.model.phrases if config.start else config.phrases
    return encode(corpora, config.text, progress, cache_dir, phrases, threads=config.settings.threads)


def prepared(corpus: EncodedCorpus, config: Configuration, progress: Progress) -> Task:
    """A run on an encoded corpus with everything decided; its tables are of zeros, and take no memory yet.

    Raises `EmbedxError` where the vocabulary is empty or the tables cannot be had.
    """
    objective, settings, vocabulary, start = config.objective, config.settings, config.vocabulary, config.start
    words, remap = start.vocabulary(corpus, vocabulary) if start else select(corpus, vocabulary)
    n_tokens = int(corpus.counts[remap >= 0].sum())
    progress.note(f"vocabulary: {len(words):,} words, {n_tokens:,} of {corpus.n_tokens:,} tokens")
    if vocabulary.vocab is not None:
        missing = set(listed(vocabulary.vocab)) - set(words.words)
        progress.note(f"--vocab {vocabulary.vocab}: {len(missing):,} of its words are not in the text")
    if start is not None:
        progress.note(start.summary(corpus, words, objective, settings.bias != "none"))
    held_out = hold_out(corpus.tokens, remap, settings.heldout, len(words)) if settings.heldout > 0 else None
    words = words.without(held_out.counts) if held_out else words
    kept = kept_counts(words.trained_counts, vocabulary.sample)
    objective.prepare(kept)
    sampler, warm_up = samplers.prepared(config.samplers(), words.trained_counts, objective.paths())
    if config.collapsed is None:
        settings = by_size(settings, objective, n_tokens, progress)
        warn_of_rate(settings, objective, progress)
        n_around = context_words(corpus.tokens, settings.window)
        settings = resolved(settings, objective, warm_up or sampler, kept, n_around, progress)
        if sampler.candidates == "all" and len(words) > MANY_WORDS:
            progress.note(
                f"all {len(words):,} words are candidates of each pair, which is slow; --max-vocab 5000 keeps the most frequent"
            )
    else:
        settings = replace(settings, threads=settings.threads or trainer.usable_cores())
    parts, buckets = subwords.NO_PARTS, np.zeros(0, np.int32)
    if settings.ngrams is not None:
        in_utf8 = [encoded(word) for word in words.words]
        need = subwords.listing_bytes(in_utf8, settings.ngrams)
        plan = MemoryPlan({"n-grams": need}, 0, available_memory())
        plan.check(f"the n-grams of {len(words):,} words", "lower --max-vocab or --buckets")
        parts, buckets = subwords.listed(in_utf8, settings.ngrams)
        n_each = (len(parts.rows) - len(words)) / max(len(words), 1)
        progress.note(f"subwords: {n_each:.1f} n-grams a word, in {len(buckets):,} of {settings.buckets:,} buckets")
    tables = empty_tables(objective, settings, len(words), len(buckets))._replace(parts=parts)
    config = replace(config, settings=settings)
    return Task(corpus, config, words, remap, held_out, sampler, warm_up, tables, buckets, progress)


def _check_finite(task: Task) -> None:
    """Raise `DivergedError` if a parameter is not finite."""
    if not all(np.isfinite(table.rows.sum(dtype=np.float64)) for table in (task.tables.inputs, task.tables.outputs)):
        rate = task.settings.learning_rate or 0
        raise DivergedError(f"vectors are no longer finite at the end of training; try a smaller --learning-rate than {rate:g}")


def _check_heldout(found: Mapping[str, float], task: Task, outcome: trainer.Outcome) -> DivergedError | None:
    """That the run diverged, if its model predicts held-out text worse than word frequencies do after its rate was lowered, or
    far worse; a warning if it is no better.
    """
    best, unigram = max(found["log_likelihood"], found["calibrated"]), found["unigram"]
    if best > unigram:
        return None
    rate = [float(task.settings.learning_rate or 0), *outcome.lowered_rates][-1]
    lowered = ", to which the run was lowered" if outcome.lowered_rates else ""
    message = (
        f"at the learning rate {rate:.3g}{lowered}, the model does not beat the unigram baseline on held-out text "
        f"({best:.4f} and {unigram:.4f} nats a pair); try another --learning-rate"
    )
    if outcome.lowered_rates or found["log_likelihood"] < unigram - SLACK:
        return DivergedError(message)
    task.progress.note(f"warning: {message}, or more --epochs")
    return None
