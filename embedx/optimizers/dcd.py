"""Dual coordinate descent: the optimum under an L2 penalty, one example at a time and without a
learning rate.

Hsieh, Chang, Lin, Keerthi & Sundararajan 2008, as liblinear and the label-tree tools have it:
    w = Σ_i y_i alpha_i x_i                        alpha_i >= 0 is the example's dual variable
    alpha_i' = argmin of the dual over alpha_i, the others held fixed
    w -= (alpha_i - alpha_i') y_i x_i
A step has a closed form where the objective has `dual_steps`. It lowers the dual whatever came
before, so that there is no learning rate; `--epochs` are the most passes that it makes. Keeps a
number for each example and label while 32 labels are trained (embedx.engine.tiles), so it goes with
sparse weights.
"""

from embedx.optimizers.contract import LABELS, Optimizer


class DualCoordinateDescent(Optimizer):
    """Declares dual coordinate descent."""

    name = "dcd"
    meaning = (
        "dual coordinate descent to the optimum under --l2, without a learning rate, for sparse"
        " weights and squared hinge"
    )
    commands = (LABELS,)
