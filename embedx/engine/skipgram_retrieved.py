"""The training kernel of skip-gram where an index finds the rows that compete with the centres of a block.

What each input word of a stretch finds is looked up once for the stretch, with its vector as it is then. A block's candidates
are its centres and all that its inputs found; every one of them competes in the line of every input, at its exact score.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.blocks import N_CENTRES, N_INPUTS, N_NOISE, N_PAIRS, clear, plan_block, round_up_to_padding
from embedx.engine.skipgram import train_block
from embedx.kernels.compiled import kernel, kernel_part
from embedx.search.query import QueryWorkspace, find_candidates, new_query_workspace
from embedx.search.spec import SearchSpec
from embedx.search.updater import StaleRows, mark_stale, new_stale_rows
from embedx.text.subsampling import keep_words

MOST_FOUND = 4096  # rows that a block takes beside its centres
STORE = 1 << 22  # rows that the words of a stretch may find together, before their words are looked up anew


class RetrievalWorkspace(NamedTuple):
    """A worker's memory for finding rows."""

    query: QueryWorkspace
    stale: StaleRows
    first: np.ndarray  # int64 (n_words,): where in `found` a word's rows begin, -1 if it was not looked up
    n_found: np.ndarray  # int64 (n_words,): how many it found
    words: np.ndarray  # int32 (n_words,): the words looked up
    found: np.ndarray  # int32 (1, STORE)
    n: np.ndarray  # int64 (2,): how many words were looked up, and rows found
    joined: np.ndarray  # int64 (n_rows,): the last block that a row joined
    clock: np.ndarray  # int64 (1,): blocks so far
    row: np.ndarray  # int32 (1, MOST_FOUND)


def new_retrieval_workspace(n_words: int, n_rows: int, search: SearchSpec) -> RetrievalWorkspace:
    """Memory for a worker."""
    return RetrievalWorkspace(
        new_query_workspace(n_rows, search), new_stale_rows(n_rows), np.full(n_words, -1, dtype=np.int64),
        np.zeros(n_words, dtype=np.int64), np.zeros(n_words, dtype=np.int32), np.zeros((1, STORE), dtype=np.int32),
        np.zeros(2, dtype=np.int64), np.zeros(n_rows, dtype=np.int64), np.zeros(1, dtype=np.int64),
        np.zeros((1, MOST_FOUND), dtype=np.int32),
    )  # fmt: skip


@kernel
def train_stretch(
    coefficients, sample, log_expected_count, tables, stream, sampler_data, index, search, constants, plan, workspace,
    retrieval, start, stop, lr, key, noise_key,
):  # fmt: skip
    """Train on the centres among tokens[start:stop]; return the summed loss, the pairs and the corpus words seen.

    As `skipgram.train_stretch`, but for the rows that compete.
    """
    words, block = workspace.words, workspace.block
    first, last, n_words, n_seen = keep_words(stream, plan.window, start, stop, key, words)
    loss = 0.0
    n_pairs = 0
    workspace.rng_state[0], workspace.rng_state[1] = noise_key, np.uint64(0)
    _forget_lookups(retrieval)
    centre, context, drawn = plan_block(
        sample, plan, sampler_data, words, workspace.sampling, workspace.seen, n_words, first, last, 0, noise_key, 0, block
    )
    while block.sizes[N_CENTRES] > 0:
        _add_found(index, search, tables, retrieval, block)
        loss += train_block(coefficients, log_expected_count, tables, sampler_data, constants, plan, workspace, block, lr)
        mark_stale(block.candidates, block.sizes[N_CENTRES] + block.sizes[N_NOISE], retrieval.stale)
        n_pairs += block.sizes[N_PAIRS]
        centre, context, drawn = plan_block(
            sample, plan, sampler_data, words, workspace.sampling, workspace.seen, n_words, centre, last, context,
            noise_key, drawn, block,
        )  # fmt: skip
    return loss, n_pairs, n_seen


@kernel_part
def _forget_lookups(retrieval):
    """No word was looked up."""
    for w in range(retrieval.n[0]):
        retrieval.first[retrieval.words[w]] = -1
    retrieval.n[:] = 0


@kernel_part
def _look_up(index, search, tables, retrieval, word):
    """Find the rows that compete for a word, unless they are known."""
    if retrieval.first[word] < 0:
        if retrieval.n[1] + MOST_FOUND > STORE:
            _forget_lookups(retrieval)
        n = find_candidates(index, search, tables.inputs.rows, word, retrieval.row, 0, 0, MOST_FOUND, retrieval.query)
        retrieval.first[word], retrieval.n_found[word] = retrieval.n[1], n
        for k in range(n):
            retrieval.found[0, retrieval.n[1] + k] = retrieval.row[0, k]
        retrieval.words[retrieval.n[0]] = word
        retrieval.n[0] += 1
        retrieval.n[1] += n


@kernel_part
def _add_found(index, search, tables, retrieval, block):
    """Have the rows that the inputs of a block find join its candidates."""
    retrieval.clock[0] += 1
    now, n_centres = retrieval.clock[0], block.sizes[N_CENTRES]
    for k in range(n_centres):
        retrieval.joined[block.candidates[k]] = now
    n = n_centres
    for j in range(block.sizes[N_INPUTS]):
        if block.n_pairs[j] > 0:
            word = np.int64(block.inputs[j])
            _look_up(index, search, tables, retrieval, word)
            for k in range(retrieval.first[word], retrieval.first[word] + retrieval.n_found[word]):
                row = np.int64(retrieval.found[0, k])
                if retrieval.joined[row] != now and n < n_centres + MOST_FOUND:
                    retrieval.joined[row] = now
                    block.candidates[n] = row
                    n += 1
    clear(block.drawn, 0, round_up_to_padding(n))
    for k in range(n_centres, n):
        block.drawn[0, k] = 1
    block.sizes[N_NOISE] = n - n_centres
