"""L-BFGS: the optimum of all data, by Newton's method with a matrix remembered from the last few
steps.

Byrd, Lu, Nocedal & Zhu 1995, as scipy has it:
    w -= step · H g        H from the last 20 differences of w and g; the step is found by a line
                           search
A step looks at all data at least once. Keeps some fifty copies of the parameters in float64, so it
is for small problems, whose optimum it finds to six digits. `embedx.engine.lbfgs` says how.
"""

from embedx.optimizers.contract import LABELS, Optimizer


class Lbfgs(Optimizer):
    """Declares L-BFGS."""

    name = "lbfgs"
    meaning = "L-BFGS to the optimum, each step on all data"
    commands = (LABELS,)
