"""The naive truth about a step of classification, in float64 with loops; and the small problems it
is compared on.

The objective is a made-up one, `Probe`, whose coefficients show everything that the engine hands to
an objective.
"""

from dataclasses import dataclass, field

import numpy as np
import reference
from scipy.sparse import csr_matrix

from embedx.engine.distances import write_long_rows
from embedx.engine.examples import Csr, examples_of
from embedx.engine.select import POSITIVES
from embedx.engine.shared import Plan, Shared
from embedx.engine.sparse_rows import flat
from embedx.kernels.compiled import kernel
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective, Traits
from embedx.optimizers import update_rule
from embedx.optimizers.contract import new_table
from embedx.samplers.contract import new_data


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Coefficients that grow with the score, and with everything else that there is; constants[0]
    weighs the draws.
    """
    z = batch.z
    label = batch.label
    uniforms = batch.uniforms
    total = np.float64(0)
    for e in range(n_examples):
        extra = np.float32(0)
        for d in range(uniforms.shape[1]):
            extra += uniforms[e, d]
        for d in range(state.shape[1]):
            state[batch.state_row[e], d] += 1 + 100 * batch.n_updates[e]
        for k in range(n):
            draws = constants[0] * batch.sample_count[e, k]
            slope = (
                np.float32(0.1) * z[e, k]
                + np.float32(0.01) * batch.log_expected_count[e, k]
                + extra
            )
            slope += np.float32(0.05) * batch.score_gain[e, k]
            total += (label[e, k] + draws) * slope
            z[e, k] = (label[e, k] + draws) * slope - label[e, k]
    return total


class Probe(Objective):
    """Its rows do not know of each other, so that it can be trained in every way."""

    name = "probe"
    coefficients = staticmethod(coefficients)
    traits = Traits(separable=True)

    def __init__(self, draws=0.2):
        self.draws = draws

    def constants(self, n_draws=0, n_classes=0):
        return np.array([self.draws], dtype=np.float32)

    def answer(self, z, label, sample_count, log_expected_count, score_gain):
        """Loss and coefficients of one candidate."""
        weight = label + self.draws * sample_count
        slope = 0.1 * z + 0.01 * log_expected_count + 0.05 * score_gain
        return weight * slope, weight * slope - label


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


@dataclass
class Parameters:
    """A table, what the optimiser keeps beside it, and which numbers decay."""

    w: np.ndarray  # float64 (rows, dim)
    decays: np.ndarray  # bool (dim,)
    optimizer: str
    l2: float = 0.0
    s: np.ndarray = field(default=None)

    def __post_init__(self):
        self.s = np.zeros_like(self.w) if self.s is None else self.s

    def step(self, gradient, touched, lr):
        """One step along a gradient, both (rows, dim); a number that is not touched only decays."""
        formula = reference.NAIVE_OPTIMIZERS[self.optimizer]
        if self.optimizer == "sgd":
            lr = lr / (1 - lr * self.l2)  # the decay comes afterwards
        for row in np.flatnonzero(touched.any(axis=1)):
            seen = slice(None) if formula.by_row else touched[row]
            w = self.w[row, seen]
            s = self.s[row, seen]
            reference.descend(self.optimizer, w, s, gradient[row, seen], lr)
            self.w[row, seen], self.s[row, seen] = w, s

    def decay(self, lr):
        """What every step takes from every number, touched or not."""
        formula = reference.NAIVE_OPTIMIZERS[self.optimizer]
        for row, d in np.ndindex(*self.w.shape):
            if self.decays[d] and self.optimizer == "sgd":
                self.w[row, d] *= 1 - lr * self.l2
            elif self.decays[d] and (formula.decays_at_zero or self.s[row, d] > 0):
                self.w[row, d] *= np.exp(-lr * self.l2 / formula.divisor(self.s[row, d]))


@dataclass
class Line:
    """An example's place in the minibatch, and its candidates: row, label, sample_count,
    log_expected_count.
    """

    example: int
    candidates: list[tuple[int, float, float, float]]


def step(
    outputs,
    hidden,
    x,
    terms,
    objective,
    max_norm,
    lr,
    scale,
    *,
    has_bias,
    is_sparse,
    uses_score_gain=False,
    is_proximal=False,
    by_distance=False,
):
    """One minibatch x, float64 (n, n_features), of the examples that `terms` speak of; returns the
    summed loss.

    Output rows move once for all terms, or after each if it `is_proximal`.
    """
    inputs = [[dot(row, column) for column in hidden.w.T] for row in x] if hidden is not None else x
    h = [[*row, 1.0] if has_bias else [*row] for row in inputs]
    n_free = len(h[0]) - has_bias
    gradient = np.zeros_like(outputs.w)
    touched = np.zeros(outputs.w.shape, dtype=bool)
    h_gradient = np.zeros((len(x), n_free))
    loss = 0.0
    for term in terms:
        for row, label, sample_count, log_expected_count in term.candidates:
            z = dot(h[term.example], outputs.w[row])
            by_row = np.array(h[term.example])
            by_h = outputs.w[row, :n_free]
            if by_distance:
                away = by_row[:n_free] - outputs.w[row, :n_free]
                z = -dot(away, away) + sum(outputs.w[row, n_free:])
                by_row[:n_free] = 2 * away
                by_h = -2 * away
            score_gain = dot(h[term.example], h[term.example]) if uses_score_gain else 0.0
            more, c = objective.answer(z, label, sample_count, log_expected_count, score_gain)
            loss += more
            if c != 0:
                gradient[row] += scale * c * by_row
                h_gradient[term.example] += scale * c * by_h
                seen = np.array(h[term.example]) != 0 if is_sparse and hidden is None else True
                touched[row] |= seen
        if is_proximal:
            outputs.step(gradient, touched, lr)
            gradient[:], touched[:] = 0, False
    if hidden is not None:
        hidden.step(
            x.T @ h_gradient, (x != 0).any(axis=0)[:, None] & np.ones(n_free, dtype=bool), lr
        )
        hidden.decay(lr)
    outputs.step(gradient, touched, lr)
    if max_norm:
        for row in outputs.w:
            length = np.sqrt(dot(row[:n_free], row[:n_free]))
            row[:n_free] *= min(1, max_norm / length)
    outputs.decay(lr)
    return loss


def close(ours, truth, tolerance=2e-5):
    np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=tolerance)


# ---- small problems

FEATURES, HIDDEN = 21, 18  # both longer than a vector register and no multiple of it


class Problem:
    """Random examples and parameters: dense features, sparse ones, or sparse ones with a hidden
    layer.
    """

    def __init__(
        self,
        kind,
        optimizer="sgd",
        *,
        n=12,
        n_classes=9,
        bias=True,
        labels=None,
        all_labelled=False,
        l2=0.0,
        max_norm=0.0,
        by_distance=False,
    ):
        rng = np.random.default_rng(0)
        self.kind = kind
        self.n = n
        self.n_outputs = n_classes
        self.has_bias = bias
        self.is_sparse = kind != "dense"
        self.has_hidden = kind == "hidden"
        self.x = rng.normal(0, 1, (n, FEATURES)).astype(np.float32)
        if self.is_sparse:
            self.x *= rng.random(self.x.shape) < 0.2
            self.x[1] = 0  # an example without features
            self.x[:, 5] = 0  # and a feature without examples
        if labels is None:
            labels = [
                rng.choice(n_classes, size=max(int(size), int(all_labelled)), replace=False)
                for size in rng.choice([0, 1, 1, 2, 3], n)
            ]
        self.labels = Labels.of_rows(labels)
        self.examples = examples_of(csr_matrix(self.x) if self.is_sparse else self.x, self.labels)
        self.optimizer = update_rule(optimizer, l2=l2, max_norm=max_norm)
        self.n_inputs = HIDDEN if self.has_hidden else FEATURES
        self.by_distance = by_distance
        self.dim = self.n_inputs + 2 * by_distance + bias
        # Those of an output row that are parameters.
        self.columns = [*range(self.n_inputs), *[self.dim - 1] * bias]
        w = rng.normal(0, 0.3, (n_classes, len(self.columns))).astype(np.float32)
        u = rng.normal(0, 0.3, (FEATURES, HIDDEN)).astype(np.float32)
        self.hidden = new_table(FEATURES if self.has_hidden else 0, self.dim, self.optimizer)
        if self.has_hidden:
            self.hidden.rows[:, :HIDDEN] = u
        decays = np.arange(len(self.columns)) < self.n_inputs
        self.true_outputs = Parameters(w.astype(np.float64), decays, optimizer, l2)
        everything = np.ones(HIDDEN, dtype=bool)
        self.true_hidden = (
            Parameters(u.astype(np.float64), everything, optimizer, l2) if self.has_hidden else None
        )

    def shared(
        self,
        outputs,
        *,
        positives="single",
        batch=3,
        state_width=0,
        uses_log_expected_count=True,
        keeps_accidental_hits=False,
        uses_score_gain=False,
        uniforms_width=0,
        one_label=False,
        is_proximal=False,
        sum_over=1.0,
        objective=None,
        sampler_data=None,
        **drawing,
    ):
        """What the engine trains by, with the table of the output rows."""
        plan = Plan(
            n_outputs=self.n_outputs,
            n_features=FEATURES,
            n_inputs=self.n_inputs,
            dim=self.dim,
            has_bias=self.has_bias,
            by_distance=self.by_distance,
            has_hidden=self.has_hidden,
            has_h=self.has_hidden or not self.is_sparse,
            positives=POSITIVES[positives],
            keeps_accidental_hits=keeps_accidental_hits,
            uses_log_expected_count=uses_log_expected_count,
            uses_score_gain=uses_score_gain,
            uniforms_width=uniforms_width,
            one_label=one_label,
            is_proximal=is_proximal,
            batch_size=min(batch, self.n),
            sum_over=sum_over,
            **drawing,
        )
        return Shared(
            self.hidden,
            outputs,
            flat(outputs),
            np.zeros((self.n, state_width), dtype=np.float32),
            np.zeros(self.n, dtype=np.int64),
            Csr(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32)),
            self.examples,
            sampler_data or new_data(),
            (objective or Probe()).constants(self.n_outputs, self.n_outputs),
            self.optimizer,
            plan,
        )

    def true_step(
        self, chosen, terms, objective, lr, scale, uses_score_gain=False, is_proximal=False
    ):
        x = self.x[chosen].astype(np.float64)
        return step(
            self.true_outputs,
            self.true_hidden,
            x,
            terms,
            objective,
            self.optimizer.max_norm,
            lr,
            scale,
            has_bias=self.has_bias,
            is_sparse=self.is_sparse,
            uses_score_gain=uses_score_gain,
            is_proximal=is_proximal,
            by_distance=self.by_distance,
        )

    def write_outputs(self, table):
        """Write the output rows to a table of them."""
        table.rows[:, self.columns] = self.true_outputs.w
        if self.by_distance:
            write_long_rows(table.rows, self.n_inputs)
