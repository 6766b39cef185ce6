"""Where the time of skip-gram's blocks goes: the training kernel cut short behind each of its parts, on the same chunks.

What a part takes is the difference to the kernel that ends before it, so that it is seen with the caches as the parts before
leave them. The tables come from an epoch of training; updates are made at rate 0, so that all kernels see the same ones.
"""

import time
from typing import Any

import numba
import numpy as np

from eval.page import number, table
from eval.records import Job, Records, Result
from eval.under_test import (
    FAST_MATH,
    Silent,
    TextSettings,
    blocks,
    configure,
    encode,
    gemm,
    skipgram,
)
from eval.under_test import skipgram_engine as engine

PARTS = ("planning", "fetching rows", "scores", "coefficients", "gradients", "updates")
PRODUCTS = {"scores": 1, "gradients": 2}  # of matrices as large as a block's scores times the columns
OBJECTIVES = ("ns", "ar", "ove", "implicit", "sampled-softmax", "bouchard")  # of those that draw
CHUNKS = 60  # of 10,000 tokens, timed at a time
SGEMM = 1536  # rows and columns of the matrices that a core's peak is measured with
EXCERPT = 10_000_000  # bytes at the start of the corpus, which the tables are trained on


# ---- the kernel, part by part


def train_until(part, coefficients, sample, log_expected_count, run, workspace, chunk, work):
    """`train_chunk` of embedx/engine/skipgram.py, without what comes behind a part, at rate 0; returns the words seen.

    work  float64 (3,): blocks, rows of both tables and multiply-adds of one matrix product are added
    """
    block, next_block, lr = workspace.block, workspace.next_block, chunk.lr
    n_seen = engine.start_chunk(run, workspace, chunk)
    blocks.plan_block(sample, run, workspace, block, chunk.noise_key)
    while block.sizes[blocks.N_CENTRES] > 0:
        blocks.plan_block(sample, run, workspace, next_block, chunk.noise_key)
        n_h, n = block.sizes[blocks.N_EXAMPLES], block.sizes[blocks.N_CENTRES] + block.sizes[blocks.N_NOISE]
        n_h_padded, n_w = gemm.round_up_to_tile(n_h), gemm.round_up_to_tile(n)
        work[0] += 1
        work[1] += block.sizes[blocks.N_INPUTS] + n
        work[2] += n_h_padded * n_w * workspace.h.shape[1]
        if part >= 1:
            engine.prefetch_block(run.tables, next_block)
            engine.fetch_examples(run, workspace, block)
            engine.gather(run.tables.outputs.rows, block.candidates, n, n_w, workspace.w)
        if part >= 2:
            gemm.scores(workspace.h, n_h_padded, workspace.w, n_w, workspace.batch.z)
        if part >= 3:
            if run.plan.uses_score_gain:
                engine.measure_block(run, workspace, block, workspace.w, n, lr)
            engine.coefficients_of_block(coefficients, log_expected_count, run, workspace, block, lr)
        if part >= 4:
            gemm.weighted_sums(workspace.batch.z, n_h_padded, workspace.w, n, workspace.h_gradient)
            gemm.weighted_sums_transposed(workspace.batch.z, n_w, workspace.h, n_h, workspace.w_gradient)
        if part >= 5:
            workspace.max_rate[:] = 0
            engine.update_inputs(run, workspace, block, np.float32(0))
            engine.update_candidates(run, workspace, block, np.float32(0))
        block, next_block = next_block, block
    return n_seen


def compiled() -> Any:
    return numba.njit(nogil=True, fastmath=FAST_MATH, error_model="numpy", _nrt=False)(train_until)


# ---- measuring


def measure(job: Job, text: str) -> Result:
    """Nanoseconds a word of each part, on one thread, and one core's peak beside it."""
    with encode(text, TextSettings(), Silent(), None) as corpus:
        task = skipgram.prepared(corpus, configure(job["objective"], {"threads": 1, "epochs": 1}), Silent())
        task.initialise()
        task.run(task.strategy())
        strategy = task.strategy()
        strategy.compile(Silent())
        return times(strategy, min(CHUNKS, strategy.n_chunks), job["turns"]) | {"peak": peak(job["turns"])}


def times(strategy: Any, n_chunks: int, turns: int) -> Result:
    """Seconds of the parts by medians over turns; words, blocks, rows and multiply-adds of all chunks."""
    run, passed = compiled(), np.zeros((turns, len(PARTS)))
    work, n_words = np.zeros(3), 0
    for turn in range(-1, turns):  # the first compiles
        for part in range(len(PARTS)):
            work[:], n_words = 0, 0
            began = time.perf_counter()
            for chunk in range(n_chunks):
                arguments = strategy._arguments(strategy.workers[0], 1, chunk, 0.01)
                n_words += run(part, *strategy.functions, *arguments, work)
            if turn >= 0:
                passed[turn, part] = time.perf_counter() - began
    seconds = np.diff(np.median(passed, axis=0), prepend=0)
    return {
        "seconds": dict(zip(PARTS, seconds.tolist(), strict=True)), "words": int(n_words), "blocks": work[0], "rows": work[1],
        "multiply_adds": work[2], "columns": int(strategy.tables.inputs.rows.shape[1]),
    }  # fmt: skip


def peak(turns: int) -> float:
    """Floating-point operations a second of numpy's product of large matrices on one core, the fastest of some."""
    from threadpoolctl import threadpool_limits

    a = np.random.default_rng(1).random((SGEMM, SGEMM), dtype=np.float32)
    with threadpool_limits(1):
        a @ a
        seconds = []
        for _ in range(turns):
            began = time.perf_counter()
            a @ a
            seconds.append(time.perf_counter() - began)
    return 2 * SGEMM**3 / min(seconds)


# ---- the table


def parts(records: Records) -> str:
    """A row for each objective: nanoseconds a word by part, and the products' speed as a share of the peak."""
    rows = []
    for each in records.find(kind="block"):
        found, seconds = each["result"], each["result"]["seconds"]
        row = {"objective": f"`{each['job']['objective']}`", "rows a word": number(found["rows"] / found["words"], 1)}
        row |= {f"{part}, ns": number(1e9 * seconds[part] / found["words"], 0) for part in PARTS}
        row["all, ns"] = number(1e9 * sum(seconds.values()) / found["words"], 0)
        for part, products in PRODUCTS.items():
            speed = 2 * products * found["multiply_adds"] / seconds[part]
            row[f"{part}, of the peak"] = f"{100 * speed / found['peak']:.0f} %"
        row["a core's peak, GFLOP/s"] = number(found["peak"] / 1e9, 0)
        rows.append(row)
    return table(rows)
