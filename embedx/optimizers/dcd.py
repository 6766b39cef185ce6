"""Dual coordinate descent: the optimum under an L2 penalty, one example at a time and without a
learning rate.

Hsieh, Chang, Lin, Keerthi & Sundararajan 2008, as in liblinear and label-tree tools:
    w = Σ_i y_i alpha_i x_i                        alpha_i >= 0 is the example's dual variable
    alpha_i' = argmin of the dual over alpha_i, the others held fixed
    w -= (alpha_i - alpha_i') y_i x_i
For objectives with `dual_steps` the step has a closed form. Every step lowers the dual, so there is
no learning rate; `--epochs` is the maximum number of passes. Keeps a number per example and label
while a tile of 32 labels is trained (embedx.engine.sparse_tiles): it requires sparse weights.
"""

from embedx.optimizers.contract import LABELS, Optimizer


class DualCoordinateDescent(Optimizer):
    """Dual coordinate descent."""

    name = "dcd"
    meaning = (
        "dual coordinate descent to the optimum under --l2, without a learning rate, for sparse"
        " weights and squared hinge"
    )
    commands = (LABELS,)
