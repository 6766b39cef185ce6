"""Blocks of text: the examples and candidates of some kept words that follow each other.

A block is `block_size` consecutive kept words (the centres), their contexts on both sides, and
noise: the rows that the sampler draws, which are the negatives of other modules. As in word2vec.c,
context words are the inputs, and a centre is what they predict:

    inputs      centres and contexts in text order, repeats included; their vectors are fetched
    examples    vectors h computed from the inputs (`encoders`): one for each input (skip-gram), or
                one for the contexts of each centre (CBOW)
    candidates  output rows: the distinct centres, then the distinct noise words, which may equal a
                centre (but see FORM_MERGED)
    label[e, k] the number of pairs of example e whose positive is candidate k

With a tree the candidates are the distinct nodes on the paths to the centres; label[e, k] counts
the pairs whose bit at node k is 1, bit_zero_count[e, k] those whose bit is 0. If all rows are
candidates, candidate k is row k, drawn once. Retrieved rows are appended later
(`skipgram_retrieved`).

`BlockPlan.form` says in which rows an objective gets the pairs of a block (`form_of` chooses it):

    form           rows of the batch                                     for objectives with
    FORM_SUMMED    one for each example. A draw counts as often as the   `positives` "summed"
                   example has pairs
    FORM_MERGED    one for each example. A draw counts once, and not     `merges_pairs`,
                   if it is a centre: the other centres of the block     `pairs_as_set`
                   are its negatives, too. With a tree, the bits of
                   all its pairs
    FORM_PER_PAIR  one for each distinct positive of an example, with    neither
                   all the noise

With `block_size` = 0 noise is drawn for each skip-gram pair separately: a block is then one input
and one centre, as in word2vec.c.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.engine.encoders import SKIPGRAM
from embedx.kernels import SIMD_WIDTH, TILE, by_address, kernel_part, padded
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule

# The unrolled vector width of LLVM's loops over scores: rows of whole paddings leave no scalar
# remainder.
SCORE_PADDING = 2 * SIMD_WIDTH
# Indices of `Block.sizes`.
INPUTS, EXAMPLES, CERTAIN, NOISE, PAIRS = range(5)
# Selections of candidates, `BlockPlan.selection`; by the name in `Sampler.candidates`.
DRAWN, PATH, ALL, RETRIEVED = range(4)
SELECTIONS = {"drawn": DRAWN, "path": PATH, "all": ALL, "retrieved": RETRIEVED}
# Forms of a block, `BlockPlan.form`.
FORM_PER_PAIR, FORM_MERGED, FORM_SUMMED = range(3)


@by_address
class BlockPlan(NamedTuple):
    """The settings of blocks, as plain numbers."""

    encoder: int  # place in `ENCODERS`
    window: int
    block_size: int
    n_draws: int
    n_outputs: int
    selection: int  # DRAWN, PATH, ALL or RETRIEVED
    form: int  # FORM_PER_PAIR, FORM_MERGED or FORM_SUMMED
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    bias: int  # the column of the biases, where every input is 1; -1 without biases
    optimizer: UpdateRule
    # Steps are proximal: their rates are at most those of `SkipGramWorkspace`.
    is_proximal: bool


@by_address
class Block(NamedTuple):
    """The rows of one planned block.

    Its candidates are first those that are certain, sizes[CERTAIN] in number: the distinct centres,
    with a search also the rows found; the nodes of a tree; or all rows. Then come the distinct rows
    that were drawn, sizes[NOISE].
    """

    sizes: ndarray  # int64 (5,): numbers of inputs, examples, candidates of both kinds, pairs
    inputs: ndarray  # int32 (max inputs,): words
    n_pairs_of_input: ndarray  # int64 (max inputs,): number of pairs that each input is part of
    # int32 (max examples,): the row of each example in the objective's state, which is a word
    state_row: ndarray
    n_pairs_of_example: ndarray  # int64 (max examples,): number of pairs of each example
    label: ndarray  # float32 (max examples, max candidates): numbers of pairs, see above
    bit_zero_count: ndarray  # float32, like label where there is a tree
    candidates: ndarray  # int32 (max candidates,)
    # float32 (1, max candidates), a matrix for `load`: how often each was drawn, 0 for centres; 1
    # where all rows are candidates
    sample_count: ndarray
    # int32 (2 window,): the examples of the current centre, while the block is planned
    centre_examples: ndarray
    # float32 (max examples, max inputs): 1 for the inputs that an example is the mean of, 0 for the
    # others; (0, 0) in skip-gram
    context_mask: ndarray
    mean_weight: ndarray  # float32 (max examples,): 1 / the number of these inputs
    # int64 (tiles, 3), see `gemm`: the candidates that each tile of examples is multiplied with,
    # and the examples for each tile of candidates. Those of a tile of examples are its centres, a
    # few that follow each other, and all noise.
    spans: ndarray
    candidate_spans: ndarray


@kernel_part
def n_candidates_of(block):
    """The number of candidates of a planned block."""
    return block.sizes[CERTAIN] + block.sizes[NOISE]


@kernel_part
def has_candidates(block):
    """Whether a block is planned; false behind the last one of a chunk."""
    return block.sizes[CERTAIN] > 0


@kernel_part
def round_up_to_padding(n):
    """n rounded up to a multiple of SCORE_PADDING."""
    return (n + SCORE_PADDING - 1) // SCORE_PADDING * SCORE_PADDING


def form_of(objective: Objective) -> int:
    """How the objective gets the pairs of a block."""
    if objective.positives == "summed":
        return FORM_SUMMED
    if objective.traits.merges_pairs or objective.traits.pairs_as_set:
        return FORM_MERGED
    return FORM_PER_PAIR


def max_centres(plan: BlockPlan) -> int:
    """Maximum number of centres of a block; 1 where each pair is a block."""
    return max(plan.block_size, 1)


def max_inputs(plan: BlockPlan) -> int:
    """Maximum number of inputs of a block, in whole tiles."""
    return padded(max_centres(plan) + 2 * plan.window, TILE)


def max_examples(plan: BlockPlan) -> int:
    """Maximum number of examples of a block, in whole tiles."""
    return max_inputs(plan) if plan.encoder == SKIPGRAM else padded(plan.block_size, TILE)


def max_candidates(plan: BlockPlan, longest_path: int) -> int:
    """Maximum number of candidates of a block, a multiple of SCORE_PADDING. Noise can be read in
    whole vectors that begin at its first candidate.
    """
    n_centres = max_centres(plan)
    if plan.selection == ALL:
        return padded(plan.n_outputs, SCORE_PADDING)
    if plan.selection == PATH:
        return padded(n_centres * longest_path, SCORE_PADDING)
    return padded(n_centres + plan.n_draws + SIMD_WIDTH, SCORE_PADDING)


def new_block(plan: BlockPlan, longest_path: int) -> Block:
    """Memory for a block."""
    n_inputs = max_inputs(plan)
    n_examples = max_examples(plan)
    n_candidates = max_candidates(plan, longest_path)
    inputs = np.zeros(n_inputs, int32)
    n_pairs_of_input = np.zeros(n_inputs, int64)
    candidates = np.zeros(n_candidates, int32)
    sample_count = np.zeros((1, n_candidates), float32)
    if plan.selection == ALL:
        candidates[: plan.n_outputs] = np.arange(plan.n_outputs)
        sample_count[:, : plan.n_outputs] = 1

    if plan.encoder == SKIPGRAM:
        # An example is an input, with the same word and pairs.
        state_row = inputs
        n_pairs_of_example = n_pairs_of_input
        context_mask = np.zeros((0, 0), float32)
        mean_weight = np.zeros(0, float32)
    else:
        state_row = np.zeros(n_examples, int32)
        n_pairs_of_example = np.zeros(n_examples, int64)
        context_mask = np.zeros((n_examples, padded(n_inputs)), float32)
        mean_weight = np.zeros(n_examples, float32)

    has_tree = plan.selection == PATH
    has_spans = has_tree or (plan.selection == DRAWN and plan.form != FORM_MERGED)
    return Block(
        sizes=np.zeros(5, int64),
        inputs=inputs,
        n_pairs_of_input=n_pairs_of_input,
        state_row=state_row,
        n_pairs_of_example=n_pairs_of_example,
        label=np.zeros((n_examples, n_candidates), float32),
        bit_zero_count=np.zeros((n_examples if has_tree else 0, n_candidates), float32),
        candidates=candidates,
        sample_count=sample_count,
        centre_examples=np.zeros(2 * plan.window, int32),
        context_mask=context_mask,
        mean_weight=mean_weight,
        spans=np.zeros((n_examples // TILE if has_spans else 0, 3), int64),
        candidate_spans=np.zeros((n_candidates // TILE if has_spans else 0, 3), int64),
    )
