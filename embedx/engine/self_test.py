"""Self-test for a numba newer than those embedx was tested with: trains blocks of words by compiled
kernels and by plain Python, and compares the parameters.

Changed interfaces of numba are noticed where kernels are declared (`embedx.kernels.compiled`);
wrong machine code is noticed here. The test covers scores, gradients, random draws and updates.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.engine import blocks, skipgram
from embedx.engine.encoders import SKIPGRAM
from embedx.engine.loading import compiled_functions
from embedx.errors import EmbedxError
from embedx.kernels.compiled import TESTED
from embedx.kernels.random import stream_key
from embedx.objectives import OBJECTIVES
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table
from embedx.samplers import SAMPLERS
from embedx.text.held_out import n_pieces
from embedx.text.subsampling import TokenStream

N_TOKENS = 64  # in four blocks
N_WORDS = 20
DIM = 24
WINDOW = 3
TOLERANCE = 1e-4  # relative and absolute, for float32 sums in another order


def check() -> None:
    """Raise `EmbedxError` if compiled kernels and plain Python train different parameters."""
    expected = _trained_by_python()
    if not np.allclose(trained(), expected, TOLERANCE, TOLERANCE):
        latest = ".".join(map(str, TESTED))
        raise EmbedxError(
            f"numba {numba.__version__} compiles kernels whose results are not those of plain"
            f' Python; pip install "numba=={latest}.*"'
        )


def trained() -> ndarray:
    """The parameters after a few blocks and the loss, float32, by the kernels of this process."""
    tables, arguments, objective, sampler = _setup()
    functions = compiled_functions(skipgram.train_chunk, objective.coefficients, sampler, arguments)
    loss, n_pairs, n_words = skipgram.train_chunk(*functions, *arguments)
    rows = (tables.inputs.rows, tables.outputs.rows)
    return np.concatenate([*map(np.ravel, rows), [loss, n_pairs, n_words]]).astype(float32)


def _trained_by_python() -> ndarray:
    """`trained` in a process that compiles nothing."""
    package = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "embedx.engine.self_test"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(done.stdout), float32)


def _setup() -> tuple[skipgram.SkipGramTables, tuple[Any, ...], Any, Any]:
    """(tables, arguments of `train_chunk`, objective, sampler) for a small random corpus."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 100, N_WORDS)
    objective = OBJECTIVES["ns"](OBJECTIVES["ns"].Settings())
    objective.prepare(counts)
    sampler = SAMPLERS["unigram"](SAMPLERS["unigram"].Settings())
    sampler.prepare(counts, paths=objective.paths())
    rule = update_rule("bounded-adagrad", row_length=DIM)
    tables = skipgram.SkipGramTables(
        new_table(N_WORDS, DIM, rule),
        new_table(N_WORDS, DIM, rule),
        np.zeros((N_WORDS, objective.state_width), float32),
        np.zeros(1, int64),
    )
    for table in (tables.inputs, tables.outputs):
        table.rows[:, :DIM] = rng.normal(0, 0.5, (N_WORDS, DIM))
    tokens = rng.integers(0, N_WORDS, N_TOKENS).astype(int32)
    tokens.setflags(write=False)  # like tokens mapped from disk: numba types them alike
    keep_all = np.full(N_WORDS, 2**32 - 1, np.uint32)
    stream = TokenStream(
        tokens, np.arange(N_WORDS, dtype=int32), keep_all, np.zeros(n_pieces(tokens), np.uint8)
    )
    n_draws = 8
    plan = blocks.BlockPlan(
        encoder=SKIPGRAM,
        window=WINDOW,
        block_size=16,
        n_draws=n_draws,
        n_outputs=N_WORDS,
        selection=blocks.SELECTIONS[sampler.candidates],
        form=blocks.FORM_SUMMED,
        keeps_accidental_hits=objective.traits.keeps_accidental_hits,
        uses_log_expected_count=objective.traits.uses_log_expected_count,
        uses_score_gain=objective.traits.uses_score_gain,
        bias=-1,
        optimizer=rule,
        is_proximal=False,
    )
    constants = objective.constants(n_draws, N_WORDS)
    shared = skipgram.SkipGramShared(tables, stream, sampler.data(n_draws), constants, plan)
    stride = tables.inputs.rows.shape[1]
    workspace = skipgram.new_workspace(plan, N_TOKENS, stride, 1, objective.uniforms_width)
    chunk = skipgram.Chunk(0, N_TOKENS, float32(0.1), stream_key(1, 0), stream_key(1, 0, 7))
    return tables, (shared, workspace, chunk), objective, sampler


if __name__ == "__main__":
    print(json.dumps(trained().tolist()))
