"""The trees of hierarchical softmax: as short as there is, or of halves; their probabilities
multiply along the paths.
"""

import numpy as np
import pytest
import reference

from embedx.objectives.binary_tree import halves, huffman
from embedx.objectives.hs import HierarchicalSoftmax
from embedx.testing.objectives import Candidates, evaluate

COUNTS = {
    "one class": [4],
    "two": [3, 5],
    "equal": [7] * 13,
    "some never seen": [0, 9, 0, 0, 4, 1, 0, 1],
    "never seen": [0] * 9,
    "powers of two": [2**k for k in range(40)],
    "Zipf": [10**6 // k for k in range(1, 300)],
}


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_the_huffman_tree_has_the_least_expected_depth(counts):
    counts = np.array(counts)
    tree = huffman(counts)
    assert counts @ tree.depth == counts @ reference.huffman_depths(counts)
    assert np.sum(0.5**tree.depth) == 1  # Kraft's equality: every turn leads somewhere
    assert len(tree.branch) == max(len(counts) - 1, 1)


def shuffled(counts):
    """An order of the classes, those that occur first."""
    order = np.random.default_rng(3).permutation(len(counts))
    return order[np.argsort(np.array(counts)[order] == 0, kind="stable")].astype(np.int32)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_probabilities_multiply_along_the_paths(counts, ordered):
    objective = HierarchicalSoftmax(HierarchicalSoftmax.Settings())
    objective.prepare(np.array(counts), shuffled(counts) if ordered else None)
    paths = objective.paths()
    z = np.random.default_rng(9).normal(size=objective.n_outputs(len(counts)))
    expected = reference.tree_log_probability(z, *paths)
    np.testing.assert_allclose(
        objective.log_probability(z, np.zeros(len(counts))), expected, atol=1e-12
    )
    p = (1 + np.array(counts)) / (1 + np.array(counts)).sum()
    np.testing.assert_allclose(
        objective.log_probability(objective.initial_bias(p, p), p), np.log(p), atol=1e-9
    )
    assert (paths.nodes.dtype, paths.bits.dtype, paths.offsets.dtype) == (
        np.int32,
        np.float32,
        np.int64,
    )
    # all paths start at the root
    assert (paths.nodes[paths.offsets[:-1][np.diff(paths.offsets) > 0]] == 0).all()


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_a_tree_of_halves_keeps_the_order_and_has_the_least_depth(counts):
    counts = np.array(counts)
    order = shuffled(counts)
    seen = int((counts > 0).sum())
    tree = halves(order, seen)
    objective = HierarchicalSoftmax(HierarchicalSoftmax.Settings())
    objective.prepare(counts, order)
    offsets, _, bits = objective.paths()
    paths = [tuple(bits[offsets[k] : offsets[k + 1]]) for k in order]
    assert paths == sorted(paths)
    assert np.sum(0.5**tree.depth) == 1
    assert len(tree.branch) == max(len(counts) - 1, 1)
    assert tree.levels.tolist() == sorted({*tree.levels.tolist()})
    flattest = int(np.ceil(np.log2(max(seen, 1))))
    assert tree.depth[order[: max(seen - 1, 0)]].max(initial=0) == (flattest if seen > 1 else 0)
    unseen = np.ceil(np.log2(max(len(counts) - seen, 1)))
    assert tree.depth.max() <= flattest + 1 + unseen
    if seen > 1 and seen.bit_count() == 1:
        half = order[:seen].reshape(2, -1)
        assert [[paths[order.tolist().index(k)][0] for k in side] for side in half] == [
            [0] * (seen // 2),
            [1] * (seen // 2),
        ]


def test_frequent_classes_are_near_the_root_and_unseen_classes_do_not_form_a_chain():
    depth = huffman(np.array([1000, 10] + [0] * 1024)).depth
    assert (depth[0], depth[1], depth.max()) == (1, 2, 12)


def test_the_loss_of_a_tree_is_minus_the_log_probability():
    objective = HierarchicalSoftmax(HierarchicalSoftmax.Settings())
    objective.prepare(np.array(COUNTS["Zipf"]))
    paths = objective.paths()
    z = np.random.default_rng(10).normal(size=298)
    path = slice(*paths.offsets[77:79])
    bits = paths.bits[path]
    candidates = Candidates(z[paths.nodes[path]], bits, 1 - bits, 0 * bits)
    loss = evaluate(objective, candidates).loss
    assert loss == pytest.approx(-objective.log_probability(z, np.zeros(299))[77])
