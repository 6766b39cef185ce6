"""A table at random, and the parameters of a worker that has it."""

import numpy as np

from embedx.distributed.parameters import Parameters
from embedx.optimizers import update_rule
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, new_table

N_ROWS, DIM = 40, 20


def table_at_random(name, seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    rule = update_rule(name)
    table = new_table(n_rows, DIM, rule)
    table.rows[:, :DIM] = rng.normal(0, 1, (n_rows, DIM))
    if table.keeps in (PER_ROW, PER_COORDINATE):
        table.state[:] = rng.uniform(1, 4, table.state.shape)
    return table, rule


def parameters_of(table, rule, state=None, n_updates=None, uses=None, partner=None):
    n_rows = len(table.rows)
    state = np.zeros((n_rows, 0), np.float32) if state is None else state
    n_updates = np.zeros(1, np.int64) if n_updates is None else n_updates
    uses = np.zeros(n_rows, np.float32) if uses is None else uses
    return Parameters(
        {"rows": table},
        rule,
        state,
        n_updates,
        {"rows": uses},
        {} if partner is None else {"rows": partner},
    )


class WorkerKey:
    """Stands for a worker, of which the server only keeps what it has sent to it."""
