"""The contract of objectives: gradients against finite differences, compiled code against plain
Python, finite losses, probabilities, bounds, and every declared trait.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy import ndarray

from embedx.engine.loading import compile_function
from embedx.kernels import adjusted
from embedx.kernels.batch import COEFFICIENTS, COEFFICIENTS_64, Batch
from embedx.objectives.contract import Objective
from embedx.samplers import SAMPLERS

# Number of candidates of an example.
N = 7
# Number of classes if all outcomes of draws are enumerated.
K = 6
# Number of updates after which a state no longer changes.
FROZEN = 2**62
# Score of a candidate without weight.
GARBAGE = 1e30
N_UPDATES = (0, 3)
# Weights of the positives of an example, by `Objective.positives`.
WEIGHTS = {"single": (1.5,), "joint": (1.0, 0.5), "summed": (1.0, 2.0)}
UNIFORM = np.full(K, 1 / K)
UNIGRAM = np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])


def variants(objective: type[Objective]) -> dict[str, Objective]:
    """Instances of an objective with various settings, by name.

    These are the defaults; each other choice or switch, one at a time; all numbers changed.
    """
    by_name = {objective.name: objective(objective.Settings())}
    numbers = {}
    for field in dataclasses.fields(objective.Settings):
        values = field.metadata["choices"] or ()
        if isinstance(field.default, bool):
            values = (not field.default,)
        elif not values and isinstance(field.default, int | float):
            numbers[field.name] = another_number(field.default)
        for value in set(values) - {field.default}:
            settings = objective.Settings(**{field.name: value})
            by_name[f"{objective.name}-{field.name}={value}"] = objective(settings)
    if numbers:
        by_name[f"{objective.name}-other-numbers"] = objective(objective.Settings(**numbers))
    return by_name


def another_number(default: float) -> float:
    """A value of a setting other than its default: larger for integers, smaller for others."""
    if isinstance(default, int):
        return default + 2
    return 0.9 * default if default > 0 else 0.5


class Candidates(NamedTuple):
    """Candidates of some examples, (n, N) each."""

    z: ndarray
    label: ndarray
    sample_count: ndarray
    log_expected_count: ndarray

    @property
    def weighed(self) -> ndarray:
        """Which candidates have weight."""
        return (self.label > 0) | (self.sample_count > 0)

    @property
    def importance(self) -> ndarray:
        """The count of each candidate divided by its expected count."""
        return self.sample_count / np.exp(self.log_expected_count)


class Conditions(NamedTuple):
    """The arguments of an objective other than candidates and state.

    n_updates    of the state, a number or int64 (n,)
    state_rows   int64 (n,): the state of each example; by default each has its own
    score_gain   (n, N); by default that of `score_gains`
    uniforms     (n, objective.uniforms_width); random by default
    """

    n_updates: Any = FROZEN
    state_rows: ndarray | None = None
    lr: float = 0.0
    dtype: Any = np.float64
    n_draws: int = 5
    n_classes: int = N
    score_gain: ndarray | None = None
    uniforms: ndarray | None = None


DEFAULT_CONDITIONS = Conditions()


class Evaluation(NamedTuple):
    """The result of `coefficients`: the loss of all examples, ∂loss/∂z, and the new state."""

    loss: float
    slopes: ndarray
    state: ndarray


def coefficients_of(objective: Any, dtype: Any = np.float64) -> Any:
    """An objective's `coefficients`, compiled as for training.

    Numba would compile another function on a direct call.
    """
    signature = COEFFICIENTS_64 if dtype == np.float64 else COEFFICIENTS
    compile_function(objective.coefficients, signature)
    return objective.coefficients


def evaluate(
    objective: Any,
    candidates: Candidates,
    state: ndarray | None = None,
    conditions: Conditions = DEFAULT_CONDITIONS,
) -> Evaluation:
    """Loss, coefficients and the new state of some examples, by compiled code.

    Scores of candidates without weight are GARBAGE.
    """
    coefficients = coefficients_of(objective, conditions.dtype)
    return _evaluated(coefficients, objective, candidates, state, conditions)


def evaluate_plainly(
    objective: Any, candidates: Candidates, state: ndarray, conditions: Conditions
) -> Evaluation:
    """As `evaluate`, in plain Python."""
    coefficients = objective.coefficients
    if not hasattr(coefficients, "py_func"):
        return _evaluated(coefficients, objective, candidates, state, conditions)

    def call_plainly(part: Any, *arguments: Any) -> Any:
        return part.py_func(*arguments)

    with mock.patch.object(adjusted.Part, "__call__", call_plainly):
        return _evaluated(coefficients.py_func, objective, candidates, state, conditions)


def _evaluated(
    coefficients: Any,
    objective: Any,
    candidates: Candidates,
    state: ndarray | None,
    conditions: Conditions,
) -> Evaluation:
    """The result of one call of `coefficients`."""
    candidates = Candidates(*(np.atleast_2d(np.array(a, np.float64)) for a in candidates))
    n_examples, n = candidates.z.shape
    dtype = conditions.dtype
    batch = _batch(objective, candidates, conditions)
    if state is None:
        n_states = int(batch.state_row.max()) + 1
        state = np.zeros((n_states, objective.state_width))
    state = state.astype(dtype)
    constants = objective.constants(conditions.n_draws, conditions.n_classes).astype(dtype)
    with np.errstate(all="ignore"):  # garbage may overflow before it is dropped
        loss = coefficients(batch, state, constants, n_examples, n, dtype(conditions.lr))
    return Evaluation(float(loss), batch.z[:n_examples, :n], state)


def _batch(objective: Any, candidates: Candidates, conditions: Conditions) -> Batch:
    """The candidates as arguments of `coefficients`, in arrays larger than necessary."""
    n_examples, n = candidates.z.shape
    dtype = conditions.dtype
    state_rows = conditions.state_rows
    if state_rows is None:
        state_rows = np.arange(n_examples)
    score_gain = conditions.score_gain
    if score_gain is None:
        score_gain = score_gains(candidates.z.shape)
    uniforms = conditions.uniforms
    if uniforms is None:
        shape = (n_examples, objective.uniforms_width)
        uniforms = np.random.default_rng(0).uniform(0.01, 0.99, shape)

    def padded(values: ndarray) -> ndarray:
        array = np.zeros((n_examples + 1, n + 2), dtype)
        array[:n_examples, :n] = values
        return array

    n_updates = np.array(conditions.n_updates, dtype=np.int64)
    return Batch(
        padded(np.where(candidates.weighed, candidates.z, GARBAGE)),
        padded(candidates.label),
        padded(candidates.sample_count),
        padded(candidates.log_expected_count),
        uniforms.astype(dtype),
        state_rows,
        np.broadcast_to(n_updates, n_examples).copy(),
        padded(score_gain),
    )


def score_gains(shape: tuple[int, ...]) -> ndarray:
    """Score gains of some candidates."""
    return np.linspace(0.5, 2, int(np.prod(shape))).reshape(shape)


def examples(objective: Any, n: int = 4, seed: int = 0) -> Candidates:
    """Valid examples for the objective; in each, some candidate has no weight."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n, N))
    label = np.zeros((n, N))
    sample_count = np.zeros((n, N))
    for e in range(n):
        if "path" in objective.candidates:
            depth = rng.integers(1, N)
            label[e, :depth] = rng.integers(0, 2, depth)
            sample_count[e, :depth] = 1 - label[e, :depth]
        else:
            label[e], sample_count[e] = _drawn_example(objective, rng)
    candidates = Candidates(z, label, sample_count, 0 * z)
    if objective.traits.uses_log_expected_count:
        drawn = np.log(rng.uniform(0.2, 0.8, (n, N)))
        candidates.log_expected_count[:] = np.where(candidates.weighed, drawn, 0)
    return candidates


def _drawn_example(objective: Any, rng: np.random.Generator) -> tuple[ndarray, ndarray]:
    """Labels and sample counts of an example that does not follow a path, (N,) each."""
    label = np.zeros(N)
    sample_count = np.ones(N)
    if objective.candidates != ("all",):
        sample_count = rng.choice([0.0, 1.0, 1.0, 2.0], N)
    places = rng.permutation(N)
    sample_count[places[3]] = 0
    sample_count[places[4]] = 1
    for place, weight in zip(places, WEIGHTS[objective.positives], strict=False):
        label[place] = weight
        sample_count[place] = 1 if objective.traits.keeps_accidental_hits else 0
    return label, sample_count


def near_optimal_state(objective: Any, candidates: Candidates) -> ndarray:
    """A sensible state: near the best one for the candidates with weight."""
    scores = np.where(candidates.weighed, candidates.z, -30.0)
    best = objective.optimal_state(scores, candidates.label)
    assert best.shape == (len(candidates.z), objective.state_width), "optimal_state: wrong shape"
    return np.asarray(best + 0.3)


# ---- the loss


def check_declarations(objective: Objective) -> None:
    """The declared traits are consistent."""
    traits = objective.traits
    assert traits.keeps_accidental_hits or objective.positives != "summed"
    assert objective.about.formula, "no formula"
    assert objective.about.advice, "no advice"
    assert objective.samplers(), "no sampler has candidates of its kinds"
    assert set(objective.samplers()) <= set(SAMPLERS)


def check_gradient(objective: Objective) -> None:
    """The coefficients are the gradient of the loss."""
    if objective.step != "gradient":
        return
    candidates = examples(objective)
    state = near_optimal_state(objective, candidates)
    _, slopes, after = evaluate(objective, candidates, state)
    message = "a state that was updated often moved at learning rate 0"
    np.testing.assert_allclose(after, state, atol=1e-7, err_msg=message)
    for place in np.ndindex(*candidates.z.shape):
        step = np.zeros_like(candidates.z)
        step[place] = 1e-5
        up = evaluate(objective, candidates._replace(z=candidates.z + step), state)
        down = evaluate(objective, candidates._replace(z=candidates.z - step), state)
        slope = (up.loss - down.loss) / 2e-5
        np.testing.assert_allclose(
            slopes[place], slope, rtol=1e-6, atol=2e-8, err_msg="no gradient"
        )


def check_plain_python(objective: Objective) -> None:
    """Compiled code and plain Python compute the same."""
    candidates = examples(objective, seed=1)
    state = near_optimal_state(objective, candidates)
    for n_updates in N_UPDATES:
        conditions = Conditions(n_updates, lr=0.1)
        exact = evaluate_plainly(objective, candidates, state, conditions)
        for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-4)):
            compiled = evaluate(objective, candidates, state, conditions._replace(dtype=dtype))
            pairs: Any = zip(compiled, exact, strict=True)
            for ours, truth in pairs:
                np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=tolerance)


def check_no_weight(objective: Objective) -> None:
    """A candidate without weight gets coefficient 0, and an example without positives changes no
    state.
    """
    for n_updates in N_UPDATES:
        candidates = examples(objective)
        candidates.label[1] = 0
        candidates.sample_count[1] = 0
        candidates.log_expected_count[1] = 0
        state = near_optimal_state(objective, candidates)
        conditions = Conditions(n_updates, lr=0.1, dtype=np.float32)
        _, slopes, after = evaluate(objective, candidates, state, conditions)
        is_without_weight = ~candidates.weighed
        assert not slopes[is_without_weight].any(), "a candidate without weight has a coefficient"
        assert (slopes[0] != 0).any(), "an example with a positive has no coefficients"
        np.testing.assert_array_equal(after[1], state[1].astype(np.float32))


def check_first_update(objective: Objective) -> None:
    """The first update of a state does not depend on it."""
    if objective.state_width == 0:
        return
    candidates = examples(objective)
    conditions = Conditions(n_updates=0, lr=0.1)
    zeros = np.zeros((4, objective.state_width))
    from_zeros = evaluate(objective, candidates, zeros, conditions)
    from_garbage = evaluate(objective, candidates, zeros + 1e9, conditions)
    _assert_equal(from_zeros, from_garbage, "a first update reads the state")


def _assert_equal(one: Evaluation, other: Evaluation, message: str) -> None:
    """Raise AssertionError with this message unless two evaluations are equal."""
    for ours, same in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, same, message)


def check_examples_in_turn(objective: Objective) -> None:
    """Examples in one call give the same results as in separate calls, even if they share a row of
    the state.
    """
    candidates = examples(objective, seed=2)
    state_rows = np.array([2, 0, 2, 2])
    n_updates = np.array([0, 5, 1, 2])
    uniforms = np.random.default_rng(3).uniform(0.1, 0.9, (4, objective.uniforms_width))
    state = np.full((3, objective.state_width), 0.5)
    conditions = Conditions(n_updates, state_rows, lr=0.1, uniforms=uniforms)
    loss, slopes, after = evaluate(objective, candidates, state, conditions)
    scores = np.where(candidates.weighed, candidates.z, GARBAGE)
    gains = score_gains(scores.shape)
    _, label, sample_count, log_expected_count = candidates
    together = Batch(
        scores, label, sample_count, log_expected_count, uniforms, state_rows, n_updates, gains
    )
    constants = objective.constants(5, N).astype(float)
    total = 0.0
    for e in range(4):
        alone = Batch(*(a[e : e + 1].copy() for a in together))
        total += coefficients_of(objective)(alone, state, constants, 1, N, np.float64(0.1))
        np.testing.assert_allclose(slopes[e], alone.z[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(loss, total, rtol=1e-12)
    np.testing.assert_allclose(after, state, rtol=1e-12)


# ---- traits of the loss


def check_stable(objective: Objective) -> None:
    """`stable`: everything is finite at extreme scores."""
    if not objective.traits.stable:
        return
    rng = np.random.default_rng(4)
    _, label, sample_count, log_expected_count = examples(objective, n=30)
    state: ndarray | None = None
    for n_updates in (0, 1, 50):
        z = 1e4 * rng.choice([-1.0, 0.0, 1.0], label.shape)
        z[::3] = 1e4 * np.where(label[::3] > 0, -1, 1)  # the positive far below all others
        z[1::3] = 1e4 * np.where(label[1::3] > 0, 1, -1)
        candidates = Candidates(z, label, sample_count, log_expected_count - 5)
        conditions = Conditions(n_updates, lr=0.5, dtype=np.float32)
        loss, slopes, state = evaluate(objective, candidates, state, conditions)
        assert np.isfinite(loss), "the loss is not finite at extreme scores"
        assert np.isfinite(slopes).all(), "coefficients are not finite at extreme scores"
        assert np.isfinite(state).all(), "the state is not finite at extreme scores"


def check_separable(objective: Objective) -> None:
    """`separable`: a coefficient depends on its own candidate alone."""
    if not objective.traits.separable:
        return
    candidates = examples(objective)
    before = evaluate(objective, candidates).slopes
    moved = candidates.z.copy()
    moved[:, 0] += 1
    after = evaluate(objective, candidates._replace(z=moved)).slopes
    np.testing.assert_array_equal(before[:, 1:], after[:, 1:], "it is not separable")


def check_unused_inputs(objective: Objective) -> None:
    """Inputs that are declared unused have no effect."""
    candidates = examples(objective)
    state = near_optimal_state(objective, candidates)
    conditions = Conditions(lr=0.1)
    expected = evaluate(objective, candidates, state, conditions)
    if not objective.traits.uses_log_expected_count:
        heavier = candidates._replace(log_expected_count=candidates.log_expected_count + 1)
        changed = evaluate(objective, heavier, state, conditions)
        _assert_equal(changed, expected, "it uses log_expected_count")
    if not objective.traits.uses_score_gain:
        without = conditions._replace(score_gain=np.zeros(candidates.z.shape))
        changed = evaluate(objective, candidates, state, without)
        _assert_equal(changed, expected, "it uses score_gain")


# ---- draws: every outcome of two draws among K classes


def positives(objective: Any) -> ndarray:
    """Labels (K,) of an input."""
    is_joint = objective.positives == "joint"
    return np.array([0, 0, 1, 0, 0.5 if is_joint else 0, 0])


class Outcomes(NamedTuple):
    """All outcomes of two draws."""

    probability: ndarray  # float64 (n,)
    sample_count: ndarray  # float64 (n, K)
    log_expected_count: ndarray  # float64 (K,)


def outcomes(objective: Any, label: ndarray, q: ndarray | None) -> Outcomes:
    """All outcomes of two draws from q.

    If q is None, draws are without replacement, from the classes that are not positive.
    """
    if q is None:
        others = np.flatnonzero(label == 0).tolist()
        pairs = list(itertools.combinations(others, 2))
        probability = np.full(len(pairs), 1 / len(pairs))
        expected_count = np.full(K, 2 / len(others))
        return Outcomes(probability, _counts_of(pairs), np.log(expected_count))

    pairs = [(i, j) for i in range(K) for j in range(K)]
    probability = np.array([q[i] * q[j] for i, j in pairs])
    sample_count = _counts_of(pairs)
    if not objective.traits.keeps_accidental_hits:
        sample_count[:, label > 0] = 0
    return Outcomes(probability, sample_count, np.log(2 * q))


def _counts_of(pairs: list[tuple[int, int]]) -> ndarray:
    """How often each class is in each pair, float64 (n_pairs, K)."""
    return np.array([[float(pair.count(k)) for k in range(K)] for pair in pairs])


def expected_and_exact(
    objective: Any, q: ndarray | None, found: Sequence[int] = ()
) -> tuple[tuple[float, ndarray], tuple[float, ndarray]]:
    """(loss, coefficients) expected over the draws, and of sampler "all".

    Scores are the same for both, and so is the state, which is optimal for them. Rows that are
    `found` are certain, and draws of them count nothing.
    """
    label = positives(objective)
    z = np.random.default_rng(5).normal(0, 1.2, K)
    state = objective.optimal_state(z[None], label[None])
    uniforms = np.full((1, objective.uniforms_width), 0.6)
    conditions = Conditions(n_draws=2, n_classes=K, uniforms=uniforms)
    draws = outcomes(objective, label, q)
    expected_loss = 0.0
    expected_slopes = np.zeros(K)
    for p, drawn in zip(draws.probability, draws.sample_count, strict=True):
        is_found = np.isin(np.arange(K), found)
        counts = np.where(is_found, label == 0, drawn)
        is_drawn = ((label > 0) | (counts > 0)) & ~is_found
        log_expected = np.where(is_drawn, draws.log_expected_count, 0)
        candidates = Candidates(z, label, counts, log_expected)
        loss, slopes, _ = evaluate(objective, candidates, state, conditions)
        expected_loss += p * loss
        expected_slopes += p * slopes[0]

    everything = np.ones(K)
    if not objective.traits.keeps_accidental_hits:
        everything[label > 0] = 0
    every_class = Candidates(z, label, everything, np.zeros(K))
    exact = evaluate(objective, every_class, state, conditions._replace(n_draws=K))
    return (expected_loss, expected_slopes), (exact.loss, exact.slopes[0])


def check_unbiased(objective: Objective) -> None:
    """`unbiased`: expected coefficients over draws are those of sampler "all", whatever rows a
    search finds.
    """
    if not objective.traits.unbiased:
        return
    found_rows: list[Sequence[int]] = [(), (0, 3), range(K)]
    for q, found in itertools.product((UNIFORM, UNIGRAM, None), found_rows):
        if found and "search" not in objective.samplers():
            continue
        (loss, slopes), (exact, wanted) = expected_and_exact(objective, q, found)
        np.testing.assert_allclose(slopes, wanted, atol=1e-10, err_msg="draws are biased")
        np.testing.assert_allclose(loss, exact, rtol=1e-6, atol=1e-10, err_msg="draws are biased")


# ---- bounds and probabilities


def exact_losses(z: ndarray, y: ndarray) -> ndarray:
    """The losses of the exact softmax."""
    return np.asarray(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), y])


def all_rows(objective: Any, z: ndarray, y: ndarray, state: ndarray) -> ndarray:
    """The loss of each example, with all classes as candidates."""
    n = z.shape[1]
    conditions = Conditions(n_draws=n, n_classes=n)
    losses = []
    for z_of_row, label, state_of_row in zip(z, np.eye(n)[y], state, strict=True):
        candidates = Candidates(z_of_row, label, 1 - label, np.zeros(n))
        losses.append(evaluate(objective, candidates, state_of_row[None], conditions).loss)
    return np.array(losses)


def some_scores(
    n: int = 20, k: int = K, size: float = 2.0, seed: int = 6
) -> tuple[ndarray, ndarray]:
    """Scores (n, k) and the positive of each row."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, size, (n, k)), rng.integers(0, k, n)


def check_bound(objective: Objective) -> None:
    """`bound`: the loss is never below the exact one, and minimal at the optimal state."""
    if not objective.traits.bound:
        return
    z, y = some_scores()
    best = objective.optimal_state(z, np.eye(K)[y])
    losses = all_rows(objective, z, y, best)
    assert (losses >= exact_losses(z, y) - 1e-9).all(), "the loss is below the exact softmax's"
    for column in range(objective.state_width):
        for step in (-0.1, 0.1, 1.0):
            moved = best.copy()
            moved[:, column] += step
            others = all_rows(objective, z, y, moved)
            assert (others >= losses - 1e-9).all(), "a state is better than optimal_state"


def check_noise_in_predictions(objective: Objective) -> None:
    """`adds_log_noise`: whether predictions depend on the noise."""
    rng = np.random.default_rng(2)
    objective.prepare(rng.integers(1, 9, K))
    z = rng.normal(0, 2, (3, objective.n_outputs(K)))
    noise = rng.dirichlet(np.ones(K), 3)
    without = objective.log_probability(z, np.zeros(K))
    by_input = objective.log_probability(z, np.log(noise))
    depends = not np.allclose(without, by_input)
    assert depends == objective.traits.adds_log_noise, "adds_log_noise is not what it does"


def check_weight_of_negatives(objective: Objective) -> None:
    """`weighs_negatives`: whether the weight of candidates depends on the setting `negatives`, for
    the same number of candidates.
    """
    if not hasattr(objective.settings, "negatives") or "all" not in objective.candidates:
        assert not objective.traits.weighs_negatives, "negatives are always drawn, or never"
        return
    n = objective.settings.negatives
    more = type(objective)(dataclasses.replace(objective.settings, negatives=n + 1))
    depends = not np.array_equal(objective.constants(K, K), more.constants(K, K))
    assert depends == objective.traits.weighs_negatives, "weighs_negatives is not what it does"


def check_ranks(objective: Objective) -> None:
    """`ranks_by_score`: probabilities have the order of the scores, for any noise distribution."""
    if not objective.traits.ranks_by_score:
        return
    rng = np.random.default_rng(7)
    objective.prepare(rng.integers(1, 9, K))
    z = rng.normal(0, 2, (3, objective.n_outputs(K)))
    log_p = objective.log_probability(z, np.log(rng.dirichlet(np.ones(K))))
    order = np.argsort(z, axis=-1)
    np.testing.assert_array_equal(np.argsort(log_p, axis=-1), order, "ranks differ from scores")


def check_probabilities(objective: Objective) -> None:
    """The probabilities of all classes sum to one."""
    for n_classes in (1, 2, 6):
        rng = np.random.default_rng(2)
        objective.prepare(rng.integers(0, 9, n_classes))
        z = rng.normal(0, 2, (2, 3, objective.n_outputs(n_classes)))
        noise = rng.dirichlet(np.ones(n_classes))
        log_p = objective.log_probability(z, np.log(noise))
        assert log_p.shape == (2, 3, n_classes), "log_probability: wrong shape"
        np.testing.assert_allclose(np.exp(log_p).sum(axis=-1), 1, rtol=1e-6)


CHECKS = (
    check_declarations,
    check_gradient,
    check_plain_python,
    check_no_weight,
    check_first_update,
    check_examples_in_turn,
    check_stable,
    check_separable,
    check_unused_inputs,
    check_unbiased,
    check_bound,
    check_noise_in_predictions,
    check_weight_of_negatives,
    check_ranks,
    check_probabilities,
)
