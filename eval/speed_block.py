"""Where the time of word vectors goes: the training kernel stopped behind each of its parts, on the
same chunks.

A part takes the difference to the kernel that stops before it, so that it finds the caches as the
parts before leave them. The tables come from an epoch of training; updates have rate 0, so that all
kernels read the same ones.
"""

import time
from typing import Any

import numpy as np

from embedx.engine import blocks, skipgram
from embedx.engine.block_planning import plan_block
from embedx.engine.loading import load_kernel
from embedx.kernels import gemm
from embedx.kernels.compiled import kernel
from embedx.objectives import OBJECTIVES
from embedx.runtime.progress import Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.run import WordVectorsRun
from embedx.text.encode import encode
from embedx.text.settings import TextSettings
from eval.page import number, table
from eval.records import Job, Records, Result

PARTS = ("planning", "fetching rows", "scores", "coefficients", "gradients", "updates")
# of matrices as large as a block's scores times the columns
PRODUCTS = {"scores": 1, "gradients": 2}
SAMPLED = tuple(
    name for name, objective in OBJECTIVES.items() if objective.candidates[0] in ("drawn", "path")
)
CHUNKS = 60  # of 10,000 tokens, timed at a time
SGEMM = 1536  # rows and columns of the matrices that a core's peak is measured with


@kernel
def train_until(coefficients, sample, log_expected_count, run, workspace, chunk, part, work):
    """`skipgram.train_chunk` without what follows a part, at rate 0; return the corpus words seen.

    work  float64 (2,): the rows of both tables and the multiply-adds of one matrix product are
          added
    """
    block = workspace.block
    next_block = workspace.next_block
    n_seen = skipgram.start_chunk(run, workspace, chunk)
    plan_block(sample, run, workspace, block, chunk.noise_key)
    while block.sizes[blocks.CERTAIN] > 0:
        plan_block(sample, run, workspace, next_block, chunk.noise_key)
        n_h = block.sizes[blocks.EXAMPLES]
        n = blocks.n_candidates_of(block)
        n_h_padded = gemm.round_up_to_tile(n_h)
        n_w = gemm.round_up_to_tile(n)
        work[0] += block.sizes[blocks.INPUTS] + n
        work[1] += n_h_padded * n_w * workspace.h.shape[1]
        if part >= 1:
            skipgram.prefetch_block(run.tables, next_block)
            skipgram.fetch_examples(run, workspace, block)
            skipgram.gather(run.tables.outputs.rows, block.candidates, n, n_w, workspace.w)
        if part >= 2:
            gemm.scores(workspace.h, n_h_padded, workspace.w, n_w, workspace.batch.z, block.spans)
        if part >= 3:
            if run.plan.uses_score_gain:
                skipgram.measure_block(run, workspace, block, n, chunk.lr)
            skipgram.coefficients_of_block(
                coefficients, log_expected_count, run, workspace, block, chunk.lr
            )
        if part >= 4:
            gemm.weighted_sums(
                workspace.batch.z, n_h_padded, workspace.w, n, workspace.h_gradient, block.spans
            )
            gemm.weighted_sums_transposed(
                workspace.batch.z,
                n_w,
                workspace.h,
                n_h,
                workspace.w_gradient,
                block.candidate_spans,
            )
        if part >= 5:
            skipgram.update_inputs(run, workspace, block, np.float32(0))
            skipgram.update_candidates(run, workspace, block, np.float32(0))
        block, next_block = next_block, block
    return n_seen


def measure(job: Job, text: str) -> Result:
    """Seconds of each part on one thread, by medians over turns; the words, rows and multiply-adds
    of all chunks; the bytes of the rows, read and written; one core's peak.
    """
    with encode([text], TextSettings(), Silent(), None) as corpus:
        config = configure(job["objective"], {"threads": 1, "epochs": 1})
        run = WordVectorsRun.resolved(corpus, config, Silent())
        run.train(run.allocate(), None)
        strategy = run.new_strategy()
        strategy.compile(Silent())
        n_chunks = min(CHUNKS, strategy.n_chunks)
        work = np.zeros(2)
        chunks = [
            strategy._arguments(strategy.workers[0], 1, chunk, 0.01) for chunk in range(n_chunks)
        ]
        functions = load_kernel(
            train_until,
            config.objective.coefficients,
            run.sampler,
            (*chunks[0], 0, work),
            Silent(),
        )
        passed = np.zeros((job["turns"], len(PARTS)))
        for turn in range(job["turns"]):
            for part in range(len(PARTS)):
                work[:] = 0
                start = time.perf_counter()
                n_words = sum(train_until(*functions, *chunk, part, work) for chunk in chunks)
                passed[turn, part] = time.perf_counter() - start
    seconds = np.diff(np.median(passed, axis=0), prepend=0)
    return {
        "seconds": dict(zip(PARTS, seconds.tolist(), strict=True)),
        "words": int(n_words),
        "rows": work[0],
        "bytes": 2 * work[0] * chunks[0][0].tables.inputs.rows.strides[0],
        "multiply_adds": work[1],
        "peak": peak(job["turns"]),
    }


def peak(turns: int) -> float:
    """Floating-point operations a second of numpy's product of large matrices, the fastest of some;
    the environment of this process keeps BLAS on one thread.
    """
    a = np.random.default_rng(1).random((SGEMM, SGEMM), dtype=np.float32)
    seconds = []
    for _ in range(1 + turns):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return float(2 * SGEMM**3 / min(seconds))


def parts(records: Records) -> str:
    """A row for each objective: nanoseconds a corpus word by part, and the products' speed as a
    share of the peak.
    """
    rows: list[dict[str, Any]] = []
    for record in records.find(kind="block"):
        result = record["result"]
        seconds = record["result"]["seconds"]
        row = {
            "objective": f"`{record['job']['objective']}`",
            "rows a word": number(result["rows"] / result["words"], 1),
        }
        row |= {
            f"{part}, ns": number(1e9 * spent / result["words"], 0)
            for part, spent in seconds.items()
        }
        row["all, ns"] = number(1e9 * sum(seconds.values()) / result["words"], 0)
        row["rows read and written, GB/s"] = number(
            result["bytes"] / 1e9 / sum(seconds.values()), 1
        )
        for part, products in PRODUCTS.items():
            speed = 2 * products * result["multiply_adds"] / seconds[part]
            row[f"{part}, of the peak"] = f"{100 * speed / result['peak']:.0f} %"
        rows.append(row | {"a core's peak, GFLOP/s": number(result["peak"] / 1e9, 0)})
    return table(rows)
