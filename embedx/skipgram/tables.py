"""The parameters of word vectors before training."""

import numpy as np

from embedx import optimizers
from embedx.engine import skipgram as engine
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import new_table
from embedx.skipgram.settings import SkipGramSettings
from embedx.training.memory import allocating

INITIAL = 2**32  # the place of the initial vectors among a seed's random numbers
INITIAL_FLOATS = 1 << 23  # drawn at a time
SMALLER = "lower --dim, --max-vocab, --threads or --window"  # where memory is short


def empty_tables(objective: Objective, settings: SkipGramSettings, n_words: int, n_buckets: int = 0) -> engine.SkipGramTables:
    """Parameters of zeros, whose memory is taken when they are written to, with rows for buckets of n-grams after those of the
    words. Raises `EmbedxError` when they cannot be had.
    """
    columns, rule = settings.dim + (settings.bias != "none"), optimizers.update_rule(settings.optimizer)
    with allocating(f"two tables of {n_words + n_buckets:,} rows × {settings.dim} numbers", SMALLER):
        inputs, outputs = (new_table(n, columns, rule) for n in (n_words + n_buckets, objective.n_rows(n_words)))
    return engine.SkipGramTables(
        inputs,
        outputs,
        state=np.zeros((n_words, objective.state_width), dtype=np.float32),
        n_updates=np.zeros(n_words if objective.state_width else 1, dtype=np.int64),
    )


def initialise(
    tables: engine.SkipGramTables, objective: Objective, settings: SkipGramSettings, kept: np.ndarray, noise: np.ndarray
) -> None:
    """Write to tables of zeros what training starts from: inputs uniform in ±1/(2 dim), outputs zero but for biases.

    kept   int64 (n_words,)  how often each word is expected to survive subsampling; `noise` (n_words,) what is drawn by
    """
    dim, has_bias = settings.dim, settings.bias != "none"
    rng = np.random.default_rng([settings.seed, INITIAL])
    step = max(1, min(65536, INITIAL_FLOATS // dim))  # by blocks, so that no second table is ever in memory
    for start in range(0, len(tables.inputs.rows), step):
        block = tables.inputs.rows[start : start + step, :dim]
        block[:] = (rng.random(block.shape, dtype=np.float32) - np.float32(0.5)) / np.float32(dim)
    if has_bias:
        tables.inputs.rows[:, dim] = 1
    if settings.bias == "frequency":
        tables.outputs.rows[:, dim] = objective.initial_bias(kept / kept.sum(), noise)
