"""The next item of a session, by the items before it.

An item's score is the product of its output vector with the weighted mean h of the input vectors of
the items before it; each later one weighs 1 / DECAY times the one before it. Where the output
vectors are those of the nodes of a tree, it is the log-probability of the item given h.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

from embedx.errors import DataError, near
from embedx.vectors.lookup import MAX_SUGGESTED
from embedx.vectors.model import WordVectors
from embedx.vectors.probabilities import log_probability_given
from embedx.vectors.queries import largest

# An item's weight in a session is multiplied by this for each later item.
DECAY = 0.5


def history_weights(histories: Iterable[Sequence[int]], n_items: int) -> csr_matrix:
    """The weights of the items of some histories, float64 (n, n_items), each history in its order.

    histories  rows of items, the latest last
    """
    rows = list(histories)
    sizes = [len(row) for row in rows]
    weights = np.concatenate([DECAY ** np.arange(size - 1.0, -1, -1) for size in sizes])
    indptr = np.cumsum([0, *sizes])
    return csr_matrix((weights, np.concatenate(rows), indptr), (len(sizes), n_items))


def mean_of_history(model: WordVectors, weights: csr_matrix) -> ndarray:
    """The weighted mean of the input vectors of each history, float32 (n, dim)."""
    total = np.asarray(weights.sum(axis=1))
    return np.asarray(weights @ model.vectors / total).astype(float32)


def next_item_scores(model: WordVectors) -> Callable[[ndarray], ndarray]:
    """A function from means of histories, float32 (n, dim), to the scores of all items, (n,
    n_items).
    """
    output = model.output_vectors
    if output is None:
        raise DataError(
            model.facts.get("source", model),
            None,
            "it has no output vectors, by which next items are ranked",
            "give a folder that `embedx train` wrote",
        )
    if len(output) != len(model):
        return log_probability_given(model)
    return lambda h: h @ output.T


def recommend(
    model: WordVectors,
    scores_of: Callable[[ndarray], ndarray],
    items: Sequence[str],
    top_k: int,
) -> list[tuple[str, float]]:
    """The items with the highest scores after a history, without those of the history.

    scores_of  see `next_item_scores`
    items      the latest last; those that the model does not know are ignored
    """
    rows = [model.key_to_index[model.spelled(item)] for item in items if item in model]
    if not items:
        raise DataError("items", None, "an empty history", "give items of the model")
    if not rows:
        problem = f"none of the items is known: {', '.join(items)}"
        raise DataError("items", None, problem, _remedy_for_unknown(items, model))
    h = mean_of_history(model, history_weights([rows], len(model)))
    scores = np.array(scores_of(h)[0], float32)
    is_new = np.full(len(model), True)
    is_new[rows] = False
    scores[~is_new] = -np.inf
    best = largest(scores, min(top_k, int(is_new.sum())))
    return [(model.words[row], float(scores[row])) for row in best.tolist()]


def _remedy_for_unknown(items: Sequence[str], model: WordVectors) -> str:
    """What to give instead of items that are all unknown: one of several words, or a like name."""
    joined = " ".join(items)
    if joined in model:
        return f'give an item of several words in quotes: "{joined}"'
    return near(items[0], model.words[:MAX_SUGGESTED], "give items of the model")
