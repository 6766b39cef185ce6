"""The order in which an epoch takes its data, drawn anew for each."""

import numpy as np


class Orders:
    """Random orders of n things, one for each epoch, of which the last that was asked for is kept.

    place   tells these random numbers of a seed from others
    """

    def __init__(self, n: int, *place: int) -> None:
        self.n, self.place = n, place
        self.kept: dict[int, np.ndarray] = {}

    def of(self, epoch: int) -> np.ndarray:
        """int64 (n,): the things as epoch `epoch` takes them."""
        order = self.kept.get(epoch)
        if order is None:  # perhaps in two threads at once, and in the old epoch while another thread is in the new one
            order = np.random.default_rng([*self.place, epoch]).permutation(self.n)
            self.kept.clear()
            self.kept[epoch] = order
        return order
