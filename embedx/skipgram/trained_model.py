"""The model of a run: its arrays, from the tables that were trained, and the facts of the run."""

from typing import TYPE_CHECKING

import numpy as np
from numpy import float32, float64, ndarray

from embedx import objectives
from embedx.engine import skipgram as engine
from embedx.settings import Record
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.defaults import TEXT
from embedx.text.phrases import phrases_of
from embedx.training.outcome import Outcome
from embedx.vectors.model import WordVectors
from embedx.vectors.model_folder import MAX_SOURCES
from embedx.vectors.subwords import Subwords

if TYPE_CHECKING:
    from embedx.skipgram.run import WordVectorsRun


def trained_model(run: "WordVectorsRun", outcome: Outcome | None) -> WordVectors:
    """What was learned so far, as views of the tables; word vectors that are centred, or means of
    rows, are new.

    outcome  None during the run
    """
    settings = run.config.settings
    ngrams = settings.ngrams
    tables = _tables_of_model(run)
    biases: dict[str, ndarray] = {}
    if has_centred_vectors(run.config):
        tables, scores_of_mean = centred(tables, settings.dim)
        biases = {"bias": scores_of_mean}
    arrays = _arrays(run, tables) | biases
    ngram_vectors = None
    if ngrams is not None:
        ngram_vectors = Subwords(ngrams, arrays["ngram"], run.buckets)
    return WordVectors(
        run.vocabulary.words,
        arrays,
        counts=run.vocabulary.counts,
        settings=run.config.record(),
        facts=_facts(run, outcome),
        phrases=phrases_of(run.corpus),
        subwords=ngram_vectors,
    )


def has_centred_vectors(config: Configuration) -> bool:
    """Whether the word vectors of a model are centred: those of text, trained without biases, that
    do not continue those of another model.
    """
    return config.kind == TEXT and config.settings.bias == "none" and config.start is None


def centred(tables: engine.SkipGramTables, dim: int) -> tuple[engine.SkipGramTables, ndarray]:
    """The tables with word vectors less their mean, and its scores, float32 (n_rows,): added as
    biases, they leave all scores as they were.

        h·w = (h - mean)·w + mean·w

    Inputs that are trained without biases share a direction that stands for them. It tells nothing
    about a word and blurs the cosines (eval/results/related.md).
    """
    mean = engine.input_vectors(tables)[:, :dim].mean(axis=0, dtype=float64).astype(float32)
    rows = tables.inputs.rows.copy()
    rows[:, :dim] -= mean
    inputs = tables.inputs._replace(rows=rows)
    return tables._replace(inputs=inputs), tables.outputs.rows[:, :dim] @ mean


def _tables_of_model(run: "WordVectorsRun") -> engine.SkipGramTables:
    """The trained tables; anchored copies of them if training continues from a model."""
    config = run.config
    if config.start is None:
        return run.tables
    return config.start.anchored(
        run.tables, run.vocabulary, config.objective, config.settings, run.buckets
    )


def _arrays(run: "WordVectorsRun", tables: engine.SkipGramTables) -> dict[str, ndarray]:
    """The arrays of a model, by name."""
    settings = run.config.settings
    dim = settings.dim
    arrays = {
        "input": engine.input_vectors(tables)[:, :dim],
        "output": tables.outputs.rows[:, :dim],
    }
    if settings.ngrams is not None:
        word_parts, ngrams = np.split(tables.inputs.rows[:, :dim], [len(run.vocabulary)])
        arrays |= {"word_part": word_parts, "ngram": ngrams, "ngram_bucket": run.buckets}
    if settings.bias != "none":
        arrays["bias"] = tables.outputs.rows[:, dim]
    if run.vocabulary.held_out is not None:
        arrays["heldout_counts"] = run.vocabulary.held_out
    return arrays


def _facts(run: "WordVectorsRun", outcome: Outcome | None) -> Record:
    """The facts of a run that its model records."""
    config = run.config
    sources = run.corpus.report["sources"]
    names = [source["name"] for source in sources if not source["skipped"]]
    facts = {
        "objective": config.objective.name,
        **objectives.packages(config.objective.name, config.settings.sampler),
        "corpus": run.corpus.key,
        "data_hash": run.data_hash(),
        "sources": names[:MAX_SOURCES],
        "corpus_tokens": run.corpus.n_tokens,
        "words": len(run.vocabulary),
    }
    if config.start is not None:
        n_kept = len(config.start.model)
        facts |= {"words_kept": n_kept, "words_added": len(run.vocabulary) - n_kept}
    if outcome is not None:
        facts |= {"pairs_trained": outcome.tally.pairs, **outcome.facts(run.loss_unit)}
        if config.collapsed is None:
            facts |= _facts_of_speed(outcome)
    if run.origins:
        facts["chosen"] = run.origins
    if run.history:
        facts["history"] = run.history
    return facts


def _facts_of_speed(outcome: Outcome) -> Record:
    """The number of words that were read, in all and per second."""
    n_words = outcome.tally.items
    return {
        "words_trained": n_words,
        "words_per_second": round(n_words / max(outcome.seconds, 1e-9)),
    }
