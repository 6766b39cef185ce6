"""The training kernel of skip-gram where an index finds the rows that compete with the centres of a block.

The vector of an input depends on its word alone, and words recur. What a word has found, the rows of the highest scores, is
therefore kept for all threads (`FoundRows`) and sought anew only when the word has been an input `refresh` times since. A
block's candidates are

    certain    its centres, and all that its inputs have found: every one competes in the line of every input
    the tail   a few rows drawn from all, of which those that are certain are left out

A row of the tail that was drawn n times stands for n / E[n] rows. With S the certain rows, whatever they are,
Σ_{k in S} e^{z_k} + Σ_{k not in S} n_k e^{z_k} / E[n_k] is an unbiased estimate of the sum over all rows, as in Mussmann &
Ermon 2016, "Learning and inference via maximum inner product search". The draws must not depend on S: they are made by place.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.blocks import N_CENTRES, N_INPUTS, N_NOISE, N_PAIRS, clear, plan_block, round_up_to_padding
from embedx.engine.skipgram import has_parts, prefetch_inputs, prefetch_rows, train_block
from embedx.engine.subwords import mean
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import dot
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, prefetch
from embedx.search.query import QueryWorkspace, find_candidates, new_query_workspace
from embedx.search.spec import SearchSpec
from embedx.text.subsampling import keep_words

AHEAD = 8  # candidates whose rows are asked for before they are needed
NEVER = -1
USES, LOOKUPS = 0, 1


class FoundRows(NamedTuple):
    """What the input words have found, shared by all threads: a word's rows may change while another thread reads them."""

    rows: np.ndarray  # int32 (n_words, found): the rows of the highest scores
    n: np.ndarray  # int32 (n_words,): how many there are
    uses: np.ndarray  # int32 (n_words,): how often the word was an input since it was looked up; NEVER if it was not


class RetrievalWorkspace(NamedTuple):
    """A worker's memory for finding rows."""

    query: QueryWorkspace
    candidates: np.ndarray  # int32 (1, most): rows that a search gives
    scores: np.ndarray  # float32 (found,): of the best so far
    joined: np.ndarray  # int64 (n_rows, 2): the last block that a row joined, and its column there
    clock: np.ndarray  # int64 (1,): blocks so far
    counts: np.ndarray  # int64 (2,): how often a word's rows were used, and how often they had to be sought for that
    vector: np.ndarray  # float32 (1, stride): of a word that is the mean of several rows


def new_found_rows(n_words: int, found: int) -> FoundRows:
    """Nothing found yet."""
    return FoundRows(
        np.zeros((n_words, found), dtype=np.int32), np.zeros(n_words, dtype=np.int32), np.full(n_words, NEVER, dtype=np.int32)
    )


def new_retrieval_workspace(n_rows: int, found: int, search: SearchSpec, dim: int = 0) -> RetrievalWorkspace:
    """Memory for a worker; `dim` numbers for the vector of a word that is the mean of several rows."""
    most = min(search.blocks * search.max_candidates, n_rows)
    return RetrievalWorkspace(
        new_query_workspace(n_rows, search), np.zeros((1, most), dtype=np.int32), np.zeros(found, dtype=np.float32),
        np.zeros((n_rows, 2), dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64),
        aligned_zeros(1, dim),
    )  # fmt: skip


@kernel
def train_chunk(
    coefficients, sample, log_expected_count, tables, stream, sampler_data, index, search, constants, plan, workspace,
    found, refresh, retrieval, start, stop, lr, key, noise_key,
):  # fmt: skip
    """Train on the centres among tokens[start:stop]; return the summed loss, the pairs and the corpus words seen.

    As `skipgram.train_chunk`, but for the rows that compete. `plan.n_draws` is the size of the tail.
    """
    words, block, next_block = workspace.words, workspace.block, workspace.next_block
    first, last, n_words, n_seen = keep_words(stream, plan.window, start, stop, key, words)
    loss = 0.0
    n_pairs = drawn = 0
    workspace.rng_state[0], workspace.rng_state[1] = noise_key, np.uint64(0)
    centre, drawn = _plan(
        sample, tables, plan, sampler_data, index, search, workspace, found, refresh, retrieval, n_words, first, last,
        noise_key, drawn, block,
    )  # fmt: skip
    while block.sizes[N_CENTRES] > 0:
        centre, drawn = _plan(
            sample, tables, plan, sampler_data, index, search, workspace, found, refresh, retrieval, n_words, centre, last,
            noise_key, drawn, next_block,
        )  # fmt: skip
        n_next = next_block.sizes[N_CENTRES] + next_block.sizes[N_NOISE]
        prefetch_inputs(tables, next_block)
        prefetch_rows(tables.outputs.rows, next_block.candidates, n_next)
        loss += train_block(coefficients, log_expected_count, tables, sampler_data, constants, plan, workspace, block, lr)
        n_pairs += block.sizes[N_PAIRS]
        block, next_block = next_block, block
    return loss, n_pairs, n_seen


@kernel_part
def _plan(
    sample, tables, plan, sampler_data, index, search, workspace, found, refresh, retrieval, n_words, centre, last,
    noise_key, drawn, block,
):  # fmt: skip
    """Fill `block` with the rows of the next block; return where the one after begins, and the counter of random numbers."""
    centre, _, _ = plan_block(
        sample, plan, sampler_data, workspace.words, workspace.sampling, workspace.seen, n_words, centre, last, 0, noise_key, 0,
        block,
    )  # fmt: skip
    if block.sizes[N_CENTRES] > 0:
        _add_found(index, search, tables, found, refresh, retrieval, block)
        n_drawn = sample(sampler_data, np.int64(-1), noise_key, np.uint64(drawn), plan.n_draws, 0, workspace.sampling)
        _add_tail(workspace.sampling.rows, n_drawn, retrieval, block)
        drawn += n_drawn
    return centre, drawn


@kernel_part
def _add_found(index, search, tables, found, refresh, retrieval, block):
    """Have the rows that the inputs of a block have found join its centres."""
    retrieval.clock[0] += 1
    now, n = retrieval.clock[0], block.sizes[N_CENTRES]
    for k in range(n):
        retrieval.joined[block.candidates[k], 0] = now
        retrieval.joined[block.candidates[k], 1] = k
    for j in range(block.sizes[N_INPUTS]):
        if block.n_pairs[j] > 0:
            word = np.int64(block.inputs[j])
            retrieval.counts[USES] += 1
            if found.uses[word] == NEVER or found.uses[word] >= refresh:
                if has_parts(tables):
                    mean(tables.inputs.rows, tables.parts, word, retrieval.vector, 0)
                    find_best(index, search, retrieval.vector, tables.outputs.rows, np.int64(0), found, word, retrieval)
                else:
                    find_best(index, search, tables.inputs.rows, tables.outputs.rows, word, found, word, retrieval)
            found.uses[word] += 1
            for k in range(found.n[word]):
                row = np.int64(found.rows[word, k])
                if retrieval.joined[row, 0] != now:
                    retrieval.joined[row, 0] = now
                    retrieval.joined[row, 1] = n
                    block.candidates[n] = row
                    n += 1
    block.sizes[N_CENTRES] = n


@kernel_part
def _add_tail(rows, n_drawn, retrieval, block):
    """Count the draws of the rows that are not certain."""
    now, n_certain = retrieval.clock[0], block.sizes[N_CENTRES]
    clear(block.drawn, 0, round_up_to_padding(n_certain + n_drawn))
    n = n_certain
    for d in range(n_drawn):
        row = np.int64(rows[d])
        if retrieval.joined[row, 0] != now:
            retrieval.joined[row, 0] = now
            retrieval.joined[row, 1] = n
            block.candidates[n] = row
            n += 1
        if retrieval.joined[row, 1] >= n_certain:
            block.drawn[0, retrieval.joined[row, 1]] += np.float32(1)
    block.sizes[N_NOISE] = n - n_certain


@kernel
def find_best(index, search, inputs, outputs, word, found, at, retrieval):
    """Replace what a word has found, which is kept as found[at], by the rows of the highest scores among those that a search
    gives, the best first.
    """
    candidates, scores = retrieval.candidates, retrieval.scores
    n_candidates = find_candidates(index, search, inputs, word, candidates, 0, 0, candidates.shape[1], retrieval.query)
    retrieval.counts[LOOKUPS] += 1
    n = 0
    for k in range(n_candidates):
        if k + AHEAD < n_candidates:
            for d in range(0, outputs.shape[1], SIMD_WIDTH):
                prefetch(outputs, np.int64(candidates[0, k + AHEAD]), d)
        row = candidates[0, k]
        score = dot(inputs, word, outputs, np.int64(row))
        if n < scores.size or score > scores[n - 1]:
            place = min(n, scores.size - 1)
            while place > 0 and scores[place - 1] < score:
                scores[place], found.rows[at, place] = scores[place - 1], found.rows[at, place - 1]
                place -= 1
            scores[place], found.rows[at, place] = score, row
            n = min(n + 1, scores.size)
    found.n[at] = n
    found.uses[at] = 0
