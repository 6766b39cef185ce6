"""L-BFGS: the optimum over all data, by a quasi-Newton method with limited memory.

Byrd, Lu, Nocedal & Zhu 1995, by scipy:
    w -= step · H g        H from the last 20 differences of w and g; the step is found by a line
                           search
A step takes at least one pass over the data. Keeps some fifty copies of the parameters in float64:
for small problems, whose optimum it finds up to `--set tolerance`. See `embedx.engine.lbfgs`.
"""

from embedx.optimizers.contract import LABELS, Optimizer


class Lbfgs(Optimizer):
    """L-BFGS."""

    name = "lbfgs"
    meaning = "L-BFGS to the optimum, each step on all data"
    commands = (LABELS,)
