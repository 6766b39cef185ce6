"""What settings that are left open become in classification: by the objective, the optimiser and the data.

An objective declares what suits it as `label_defaults`, a value or one for each kind of input (`ByInput`); what it does not
declare is decided here. Rates are for inputs of length 1: features on another scale, a hundred times larger say, want weights a
hundred times smaller, hence steps that are shorter by as much, and by plain descent by its square. Where rows have several
labels the gradients of these add up, and say less each: rates fall with the root of their number. Passes are fewer the more
labels of rows there are, as each output row then has more examples in one.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx import optimizers
from embedx.engine.examples import Examples
from embedx.engine.settings import MAX_RATE
from embedx.labeled.data import Labeled
from embedx.labeled.rules import column_maxima, input_length, scaled
from embedx.objectives.contract import ByInput, Objective
from embedx.optimizers.contract import LABELS, PER_ROW, STATELESS, UpdateRule
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs
from embedx.settings import settings_of

# By steps: ROOT_EPOCHS / √(labels of all rows), within these. On 2,250 noisy rows of 23 labels each (`tags` of the page on
# defaults), by 63 epochs at a rate that does not know of several labels and by these, P@1: softmax .151 and .519, ova .299 and
# .556, ns .272 and .545, hs .435 and .536; on Bibtex, 2.4 labels a row, .586 and .593, .602 and .600, .589 and .561; on 15,000
# rows of EURLex-4.3K, 5 labels a row, ar .752 and .796, ove .688 and .711, ns .776 and .754.
ROOT_EPOCHS, MIN_EPOCHS, MAX_EPOCHS = 3000, 5, 100
HIDDEN_RATE = 0.4  # of a rate, with a hidden layer, whose tables both move
# Of a rate, with sparse weights; logistic ova on 4,000 rows of EURLex-4.3K has P@1 .765 at 3, and at 1, with a lower initial
# gradient, .739.
SPARSE_RATE = 3.0
DUAL_EPOCHS = 10  # by dual coordinate descent, which ends by itself
MAX_STATE = 1e38  # about what a float32 can be
N_SAMPLED = 10_000  # rows by which the scale of the features is estimated
BIAS = "frequency"
INITIAL_GRADIENT = 4.0


def new_objective(objective: type[Objective], options: Mapping[str, Any]) -> Objective:
    """The objective with its own settings among `options`, those not given as suit it best in classification."""
    own = settings_of(objective.Settings)
    suits = {name: value for name, value in objective.label_defaults.items() if name in own}
    return objective(objective.Settings.from_options({**suits, **options}))


def kind_of(data: Labeled, hidden: int | None) -> str:
    """The inputs of output rows: "dense" or "sparse" features, or a "hidden" layer."""
    return "hidden" if hidden else "sparse" if data.is_sparse else "dense"


def default_of(objective: Objective, name: str, kind: str, otherwise: Any) -> Any:
    """What the objective declares for a setting of the task, for inputs of this kind."""
    value = objective.label_defaults.get(name, otherwise)
    return getattr(value, kind) if isinstance(value, ByInput) else value


def epochs(n_positives: int, optimizer: str) -> int:
    """Passes over rows that have so many labels together."""
    if optimizer == DualCoordinateDescent.name:
        return DUAL_EPOCHS
    return min(max(round(ROOT_EPOCHS / math.sqrt(max(n_positives, 1))), MIN_EPOCHS), MAX_EPOCHS)


def bias(objective: Objective, kind: str, optimizer: str) -> str:
    """Where the biases start; the methods that go to an optimum need no help."""
    if optimizer in (DualCoordinateDescent.name, Lbfgs.name):
        return "zero"
    return str(default_of(objective, "bias", kind, BIAS))


def learning_rate(
    objective: Objective, optimizer: str, data: Labeled, scaling: str, kind: str, *, by_label: bool
) -> float | None:
    """The rate at the start; None for an optimiser that has none. Sparse weights may be trained a label after another."""
    found = optimizers.find(optimizer, LABELS)
    rate = found.rates.get(LABELS)
    if rate is not None and kind == "hidden":
        rate *= HIDDEN_RATE
    if optimizer == objective.label_defaults.get("optimizer", "adagrad"):
        rate = default_of(objective, "learning_rate", kind, rate)
    if rate is None:
        return None
    if by_label:  # on inputs of length 1
        return rate * (SPARSE_RATE if found.keeps != "stateless" else 1)
    rate /= math.sqrt(max(len(data.labels.ids) / max(len(data), 1), 1.0))
    length = 1.0 if scaling == "l2" else input_length(_some_rows(data, scaling))
    return min(float(f"{rate / length ** (2 if found.keeps == 'stateless' else 1):.3g}"), MAX_RATE)


def _some_rows(data: Labeled, scaling: str) -> Any:
    """A sample of the features."""
    features = data.features[:: max(1, len(data) // N_SAMPLED)]
    return scaled(features, scaling, column_maxima(data.features)) if scaling == "column-max" else features


def first_state(settings: Any, optimizer: UpdateRule, examples: Examples, batch_size: int) -> float:
    """What the optimiser's state begins with, for each weight of an output row or for each row: by the resolved settings.

    That is the square of `initial_gradient` gradients of one positive in a minibatch: by Adagrad the first step of a weight
    would else be as long for a gradient of next to nothing, of a label with a probability of 1/1000 say, as for any other.
    """
    if optimizer.keeps == STATELESS or optimizer.is_ema:
        return 0.0
    values = (examples.dense if examples.dense.size else examples.values).ravel()
    n = len(examples.label_offsets) - 1
    square = float(np.einsum("i,i->", values, values, dtype=np.float64)) / n  # of the length of an input
    width = max(np.count_nonzero(values) / n, 1.0)
    if settings.hidden:  # a sum of rows that are uniform within ±1/√hidden
        square, width = square / 3, float(settings.hidden)
    coefficient = settings.initial_gradient * (n if settings.gradient_scale == "sum" else 1) / batch_size
    return float(min(coefficient**2 * (square if optimizer.keeps == PER_ROW else square / width), MAX_STATE))
