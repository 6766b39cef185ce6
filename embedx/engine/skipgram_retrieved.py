"""Candidates of a block of text that an index finds for its inputs.

The vector of an input depends on its word alone, and words recur. The rows found for a word are
therefore cached for all threads (`FoundRows`), and searched again once the word has been an input
`refresh` times. The candidates of a block are

    certain    its centres and the rows found for its inputs: certain negatives of every example
    tail       a few rows drawn from all, without the certain ones

A row of the tail that was drawn n times represents n / E[n] rows. For any set S of certain rows,
Σ_{k in S} e^{z_k} + Σ_{k not in S} n_k e^{z_k} / E[n_k] is an unbiased estimate of the sum over all
rows (Mussmann & Ermon 2016, "Learning and inference via maximum inner product search"), provided
that the draws do not depend on S: they depend on the position in the corpus alone.
"""

from typing import NamedTuple

import numpy as np
from numpy import int32, int64, ndarray

from embedx.engine.block_planning import DRAWS_SO_FAR
from embedx.engine.blocks import CERTAIN, INPUTS, NOISE, round_up_to_padding
from embedx.engine.subwords import fetch_word
from embedx.kernels import (
    ONE,
    SIMD_WIDTH,
    aligned_zeros,
    by_address,
    clear,
    dot,
    insert,
    kernel,
    kernel_part,
    prefetch,
)
from embedx.samplers.contract import NO_INPUT, NONE_EXCLUDED
from embedx.search.query import QueryWorkspace, Searcher, find_candidates, new_query_workspace
from embedx.search.spec import SearchSpec

# Rows are prefetched this many candidates before they are scored.
PREFETCH_DISTANCE = 8
NEVER = -1


class FoundRows(NamedTuple):
    """The rows found for each word, shared by all threads without locks: they may change while
    another thread reads them.
    """

    rows: ndarray  # int32 (n_words, n_found): the rows with the highest scores
    n: ndarray  # int32 (n_words,): the number of rows found
    # int32 (n_words,): uses of the word as an input since its rows were found; NEVER before
    uses: ndarray


@by_address
class Retrieval(NamedTuple):
    """What a worker searches rows with, and the rows found, which all threads share."""

    searcher: Searcher
    found_rows: FoundRows
    refresh: int  # uses of a word as an input after which its rows are searched again


@by_address
class RetrievalWorkspace(NamedTuple):
    """A worker's buffers for searching rows."""

    query: QueryWorkspace
    candidates: ndarray  # int32 (1, max candidates): the results of a search
    scores: ndarray  # float32 (1, n_found): the best scores so far
    joined: ndarray  # int64 (n_rows, 2): the last block that a row joined, and its column there
    clock: ndarray  # int64 (1,): number of blocks so far
    vector: ndarray  # float32 (1, stride): the vector of a word


def new_found_rows(n_words: int, n_found: int) -> FoundRows:
    """`FoundRows` before any search."""
    return FoundRows(
        np.zeros((n_words, n_found), int32),
        np.zeros(n_words, int32),
        np.full(n_words, NEVER, int32),
    )


def new_retrieval_workspace(
    n_rows: int, n_found: int, search: SearchSpec, dim: int
) -> RetrievalWorkspace:
    """Buffers for a worker; word vectors have `dim` numbers."""
    n_candidates = min(search.blocks * search.max_candidates, n_rows)
    return RetrievalWorkspace(
        new_query_workspace(n_rows, search),
        np.zeros((1, n_candidates), int32),
        np.zeros((1, n_found), np.float32),
        np.zeros((n_rows, 2), int64),
        np.zeros(1, int64),
        aligned_zeros(1, dim),
    )


@kernel_part
def add_candidates(sample, shared, retrieval, workspace, search_workspace, block, noise_key):
    """Append the rows found for a planned block's inputs to its centres, then `plan.n_draws` draws,
    the tail, as its noise.
    """
    _add_found(shared.tables, retrieval, search_workspace, block)
    cursor = workspace.cursor
    sampling = workspace.sampling
    n_drawn = sample(
        shared.sampler_data,
        NO_INPUT,
        noise_key,
        np.uint64(cursor[DRAWS_SO_FAR]),
        shared.plan.n_draws,
        NONE_EXCLUDED,
        sampling,
    )
    cursor[DRAWS_SO_FAR] += n_drawn
    _add_tail(sampling.rows, n_drawn, search_workspace, block)


@kernel_part
def _join(row, n, search_workspace, block):
    """Make `row` candidate n of the block, unless it has joined the block before; return the number
    of candidates.
    """
    if search_workspace.joined[row, 0] != search_workspace.clock[0]:
        search_workspace.joined[row, 0] = search_workspace.clock[0]
        search_workspace.joined[row, 1] = n
        block.candidates[n] = row
        n += 1
    return n


@kernel_part
def _add_found(tables, retrieval, search_workspace, block):
    """Append the rows found for the inputs of a block to its centres."""
    search_workspace.clock[0] += 1
    found_rows = retrieval.found_rows
    n = 0
    for k in range(block.sizes[CERTAIN]):
        n = _join(int64(block.candidates[k]), n, search_workspace, block)
    for j in range(block.sizes[INPUTS]):
        if block.n_pairs_of_input[j] > 0:
            word = int64(block.inputs[j])
            if found_rows.uses[word] == NEVER or found_rows.uses[word] >= retrieval.refresh:
                fetch_word(tables.inputs.rows, tables.parts, word, search_workspace.vector, 0, -1)
                _find_best(retrieval, search_workspace, tables.outputs.rows, word)
            found_rows.uses[word] += 1
            for k in range(found_rows.n[word]):
                n = _join(int64(found_rows.rows[word, k]), n, search_workspace, block)
    block.sizes[CERTAIN] = n


@kernel_part
def _add_tail(rows, n_drawn, search_workspace, block):
    """Count the draws of the rows that are not certain; those that are count once."""
    n_certain = block.sizes[CERTAIN]
    n = n_certain
    clear(block.sample_count, 0, round_up_to_padding(n_certain + n_drawn))
    block.sample_count[0, :n_certain] = 1
    for d in range(n_drawn):
        row = int64(rows[d])
        n = _join(row, n, search_workspace, block)
        if search_workspace.joined[row, 1] >= n_certain:
            block.sample_count[0, search_workspace.joined[row, 1]] += ONE
    block.sizes[NOISE] = n - n_certain


@kernel
def _find_best(retrieval, search_workspace, outputs, word):
    """Search rows for a word whose vector is in the workspace; store those with the highest scores,
    the best first.
    """
    found_rows = retrieval.found_rows
    candidates = search_workspace.candidates
    n_candidates = find_candidates(
        retrieval.searcher,
        search_workspace.vector,
        int64(0),
        candidates,
        0,
        0,
        candidates.shape[1],
    )
    n = 0
    for k in range(n_candidates):
        if k + PREFETCH_DISTANCE < n_candidates:
            for d in range(0, outputs.shape[1], SIMD_WIDTH):
                prefetch(outputs, int64(candidates[0, k + PREFETCH_DISTANCE]), d)
        score = dot(search_workspace.vector, int64(0), outputs, int64(candidates[0, k]))
        n = insert(
            score, candidates[0, k], search_workspace.scores, found_rows.rows[word : word + 1], 0, n
        )
    found_rows.n[word] = n
    found_rows.uses[word] = 0
