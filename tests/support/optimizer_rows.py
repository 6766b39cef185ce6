"""The optimisers of minibatches, and the width of the rows that tests have them update."""

import pytest

from embedx.optimizers import OPTIMIZERS

DIM = 20  # more than a vector register, and no multiple of it
STRIDE = 32
MINIBATCH = [name for name, optimizer in OPTIMIZERS.items() if optimizer.keeps is not None]
EVERY_OPTIMIZER = pytest.mark.parametrize("name", MINIBATCH)
