"""Pairs of parameters, where the whole product would find no other fault."""

from itertools import cycle, islice


def in_turn(names, others):
    """Pairs in which each name and each of the others occurs, as few as there can be."""
    n_pairs = max(len(names), len(others))
    return list(islice(zip(cycle(names), cycle(others), strict=False), n_pairs))
