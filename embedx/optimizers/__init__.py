"""The registry of optimizers, one line each: how a gradient updates a row of parameters. See
`contract`.
"""

import math

import numpy as np

from embedx import registry
from embedx.errors import InapplicableError, SettingError, choice
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, STATELESS, Optimizer, UpdateRule

# Each as file.Class of this folder, in the order of help texts.
REGISTRY = (
    "adagrad.Adagrad",
    "rowwise_adagrad.RowwiseAdagrad",
    "bounded_adagrad.BoundedAdagrad",
    "sgd.StochasticGradientDescent",
    "mixture.Mixture",
    "rowwise_adagrad_momentum.RowwiseAdagradMomentum",
    "lbfgs.Lbfgs",
    "dcd.DualCoordinateDescent",
)

OPTIMIZERS: dict[str, type[Optimizer]] = registry.load(__name__, REGISTRY)


def keeping(what: str | None) -> list[type[Optimizer]]:
    """The optimizers whose state is "stateless", "per_coordinate" or "per_row"."""
    return [optimizer for optimizer in OPTIMIZERS.values() if optimizer.keeps == what]


def taken_by(*commands: str) -> tuple[str, ...]:
    """The names of the optimizers that any of these commands offers."""
    return tuple(
        name for name, optimizer in OPTIMIZERS.items() if set(commands) & set(optimizer.commands)
    )


def find(name: str, command: str) -> type[Optimizer]:
    """The optimizer called `name`. Raises `EmbedxError` if `command`, one of those in `contract`,
    does not offer it.
    """
    if name not in OPTIMIZERS:
        taken = taken_by(command)
        raise SettingError("optimizer", name, "no such optimizer", choice(name, taken))
    if command not in OPTIMIZERS[name].commands:
        others = " and ".join(f"`embedx {other}`" for other in OPTIMIZERS[name].commands)
        remedy = f"use one of `embedx {command}`: {', '.join(taken_by(command))}"
        raise InapplicableError("optimizer", name, f"is for {others}", remedy)
    return OPTIMIZERS[name]


def meanings(*commands: str) -> str:
    """Descriptions of the optimizers that any of these commands offers, for a help text."""
    return "; ".join(f"`{name}`: {OPTIMIZERS[name].meaning}" for name in taken_by(*commands))


def usual_rates(command: str) -> str:
    """The default learning rates of a command's optimizers, for a help text."""
    return ", ".join(
        f"{optimizer.rates[command]:g} for {name}"
        for name, optimizer in OPTIMIZERS.items()
        if command in optimizer.rates
    )


def update_rule(
    name: str,
    *,
    l2: float = 0.0,
    max_norm: float | None = None,
    row_length: float = 1.0,
    max_gradient: float = math.inf,
) -> UpdateRule:
    """An optimizer for kernels; full-gradient methods keep their state elsewhere.

    row_length    typical number of coordinates of a row with a nonzero gradient
    max_gradient  norm to which a row's gradient is clipped if its rate does not adapt
    """
    optimizer = OPTIMIZERS[name]
    keeps = {
        None: STATELESS,
        "stateless": STATELESS,
        "per_coordinate": PER_COORDINATE,
        "per_row": PER_ROW,
    }[optimizer.keeps]
    return UpdateRule(
        number=keeping(optimizer.keeps).index(optimizer),
        keeps=keeps,
        is_ema=optimizer.is_ema,
        decays_at_zero=optimizer.decays_at_zero,
        l2=float(l2),
        max_norm=float(max_norm or 0),
        limit=np.float32(optimizer.limit),
        max_gradient=np.float32(max_gradient),
        state_rate=np.float32(row_length**-0.5 if keeps == PER_ROW else 1),
    )
