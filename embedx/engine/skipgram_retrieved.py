"""The training kernel of skip-gram where an index finds the rows that compete with the centres of a block.

What each input word of a stretch finds is looked up once for the stretch, with its vector as it is then. A block's candidates
are its centres and all that its inputs found; every one of them competes in the line of every input, at its exact score.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.blocks import clear, keep_words, plan_block, whole_loops
from embedx.engine.skipgram import train_block
from embedx.kernels.compiled import kernel, kernel_part
from embedx.search.query import Probe, candidates, new_probe
from embedx.search.spec import Search
from embedx.search.updater import Moved, new_moved, remember

MOST_FOUND = 4096  # rows that a block takes beside its centres
STORE = 1 << 22  # rows that the words of a stretch may find together, before their words are looked up anew


class Finding(NamedTuple):
    """A worker's memory for finding rows."""

    probe: Probe
    moved: Moved
    first: np.ndarray  # int64 (n_words,): where in `found` a word's rows begin, -1 if it was not looked up
    n_found: np.ndarray  # int64 (n_words,): how many it found
    words: np.ndarray  # int32 (n_words,): the words looked up
    found: np.ndarray  # int32 (1, STORE)
    n: np.ndarray  # int64 (2,): how many words were looked up, and rows found
    joined: np.ndarray  # int64 (n_rows,): the last block that a row joined
    clock: np.ndarray  # int64 (1,): blocks so far
    row: np.ndarray  # int32 (1, MOST_FOUND)


def new_finding(n_words: int, n_rows: int, search: Search) -> Finding:
    """Memory for a worker."""
    return Finding(
        new_probe(n_rows, search), new_moved(n_rows), np.full(n_words, -1, dtype=np.int64), np.zeros(n_words, dtype=np.int64),
        np.zeros(n_words, dtype=np.int32), np.zeros((1, STORE), dtype=np.int32), np.zeros(2, dtype=np.int64),
        np.zeros(n_rows, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((1, MOST_FOUND), dtype=np.int32),
    )  # fmt: skip


@kernel
def train_stretch(
    coefficients, tables, stream, draws, index, search, constants, plan, scratch, finding, start, stop, lr, key, noise_key
):
    """Train on the centres among tokens[start:stop]; return the summed loss, the pairs and the corpus words seen.

    As `skipgram.train_stretch`, but for the rows that compete.
    """
    words, block = scratch.words, scratch.now
    first, last, n_words, n_seen = keep_words(stream, plan.window, start, stop, key, words)
    loss = 0.0
    n_pairs = 0
    scratch.clock[0], scratch.clock[1] = noise_key, np.uint64(0)
    _forget_words(finding)
    centre, context, drawn = plan_block(plan, draws, words, scratch.drawn_at, n_words, first, last, 0, noise_key, 0, block)
    while block.sizes[1] > 0:
        _add_found(index, search, tables, finding, block)
        loss += train_block(coefficients, tables, draws.log_expected, constants, plan, scratch, block, lr)
        remember(block.candidates, block.sizes[1] + block.sizes[2], finding.moved)
        n_pairs += block.sizes[3]
        centre, context, drawn = plan_block(
            plan, draws, words, scratch.drawn_at, n_words, centre, last, context, noise_key, drawn, block
        )
    return loss, n_pairs, n_seen


@kernel_part
def _forget_words(finding):
    """No word was looked up."""
    for w in range(finding.n[0]):
        finding.first[finding.words[w]] = -1
    finding.n[:] = 0


@kernel_part
def _look_up(index, search, tables, finding, word):
    """Find the rows that compete for a word, unless they are known."""
    if finding.first[word] < 0:
        if finding.n[1] + MOST_FOUND > STORE:
            _forget_words(finding)
        n = candidates(index, search, tables.inputs.rows, word, finding.row, 0, 0, MOST_FOUND, finding.probe)
        finding.first[word], finding.n_found[word] = finding.n[1], n
        for k in range(n):
            finding.found[0, finding.n[1] + k] = finding.row[0, k]
        finding.words[finding.n[0]] = word
        finding.n[0] += 1
        finding.n[1] += n


@kernel_part
def _add_found(index, search, tables, finding, block):
    """Have the rows that the inputs of a block find join its candidates."""
    finding.clock[0] += 1
    now, n_centres = finding.clock[0], block.sizes[1]
    for k in range(n_centres):
        finding.joined[block.candidates[k]] = now
    n = n_centres
    for j in range(block.sizes[0]):
        if block.n_pairs[j] > 0:
            word = np.int64(block.inputs[j])
            _look_up(index, search, tables, finding, word)
            for k in range(finding.first[word], finding.first[word] + finding.n_found[word]):
                row = np.int64(finding.found[0, k])
                if finding.joined[row] != now and n < n_centres + MOST_FOUND:
                    finding.joined[row] = now
                    block.candidates[n] = row
                    n += 1
    clear(block.drawn, 0, whole_loops(n))
    for k in range(n_centres, n):
        block.drawn[0, k] = 1
    block.sizes[2] = n - n_centres
