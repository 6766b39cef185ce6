"""What holds for every objective, over the registry; then what theory says of each."""

import itertools

import numpy as np
import pytest
import reference
from scipy.optimize import approx_fprime, minimize

from embedx.kernels.batch import Batch
from embedx.samplers import SAMPLERS
from tests.support.objective_answers import (
    ALL,
    GARBAGE,
    UNIFORM,
    UNIGRAM,
    Candidates,
    K,
    N,
    answer,
    examples,
    make,
    one,
    some_scores,
)


def each(holds=lambda objective: True):
    """Run a test for each objective that declares what `holds` asks for."""
    chosen = {name: objective for name, objective in ALL.items() if holds(objective)}
    return pytest.mark.parametrize("objective", list(chosen.values()), ids=list(chosen))


EVERY = each()


def near_optimal_state(objective, printed):
    """A sensible state: near the best one for the candidates that take part."""
    best = objective.optimal_state(np.where(printed.weighed, printed.z, -30.0), printed.label)
    assert best.shape == (len(printed.z), objective.state_width)
    return best + 0.3


# ---- the contract


@EVERY
def test_declarations_go_together(objective):
    assert objective.keeps_accidental_hits or objective.positives != "summed"
    assert objective.formula
    assert objective.advice
    assert set(objective.samplers()) <= set(SAMPLERS)


@each(lambda objective: objective.kind == "gradient")
def test_coefficients_are_the_gradient_of_the_loss(objective):
    printed = examples(objective)
    state = near_optimal_state(objective, printed)
    _, slopes, after = answer(objective, *printed, state)
    np.testing.assert_allclose(
        after, state, atol=1e-9, err_msg="a state that was updated often moved at learning rate 0"
    )
    for place in np.ndindex(*printed.z.shape):
        step = np.zeros_like(printed.z)
        step[place] = 1e-5
        up, _, _ = answer(objective, *printed._replace(z=printed.z + step), state)
        down, _, _ = answer(objective, *printed._replace(z=printed.z - step), state)
        assert slopes[place] == pytest.approx((up - down) / 2e-5, abs=2e-8)


@EVERY
@pytest.mark.parametrize("n_updates", [0, 3])
def test_compiled_equals_plain_python(objective, n_updates):
    printed = examples(objective, seed=1)
    state = near_optimal_state(objective, printed)
    exact = answer(objective, *printed, state, n_updates, lr=0.1, plain=True)
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-4)):
        compiled = answer(objective, *printed, state, n_updates, lr=0.1, dtype=dtype)
        for ours, truth in zip(compiled, exact, strict=True):
            np.testing.assert_allclose(ours, truth, rtol=tolerance, atol=tolerance)


@EVERY
@pytest.mark.parametrize("n_updates", [0, 3])
def test_what_has_no_weight_gets_no_coefficient_and_moves_no_state(objective, n_updates):
    printed = examples(objective)
    printed.label[1], printed.sample_count[1], printed.log_expected_count[1] = 0, 0, 0
    state = near_optimal_state(objective, printed)
    _, slopes, after = answer(objective, *printed, state, n_updates, lr=0.1, dtype=np.float32)
    assert not slopes[(printed.label == 0) & (printed.sample_count == 0)].any()
    assert (slopes[0] != 0).any()
    np.testing.assert_array_equal(after[1], state[1].astype(np.float32))


@each(lambda objective: objective.state_width)
def test_a_first_update_reads_nothing_from_the_state(objective):
    printed = examples(objective)
    of_zeros, of_garbage = (
        answer(objective, *printed, np.full((4, objective.state_width), value), 0, lr=0.1)
        for value in (0, 1e9)
    )
    for ours, same in zip(of_zeros, of_garbage, strict=True):
        np.testing.assert_array_equal(ours, same)


@EVERY
def test_examples_in_one_call_are_answered_as_if_one_by_one_though_they_share_a_key(objective):
    printed = examples(objective, seed=2)
    keys, n_updates = np.array([2, 0, 2, 2]), np.array([0, 5, 1, 2])
    uniforms = np.random.default_rng(3).uniform(0.1, 0.9, (4, objective.uniforms_width))
    state = np.full((3, objective.state_width), 0.5)
    loss, slopes, after = answer(
        objective, *printed, state, n_updates, keys, 0.1, uniforms=uniforms
    )
    together = Batch(
        *printed,
        uniforms,
        keys,
        n_updates,
        score_gain=np.linspace(0.5, 2, printed[0].size).reshape(printed[0].shape),
    )
    together = together._replace(z=np.where(printed.weighed, printed.z, GARBAGE))
    total = 0.0
    for e in range(4):
        alone = Batch(*(a[e : e + 1].copy() for a in together))
        constants = objective.constants(5, N).astype(float)
        total += reference.coefficients_of(objective)(
            alone, state, constants, 1, N, np.float64(0.1)
        )
        np.testing.assert_allclose(slopes[e], alone.z[0], rtol=1e-12, atol=1e-14)
    assert loss == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(after, state, rtol=1e-12)


@each(lambda objective: objective.stable)
def test_everything_is_finite_at_extreme_scores(objective):
    rng = np.random.default_rng(4)
    _, label, sample_count, log_expected_count = examples(objective, n=30)
    state = None
    for n_updates in (0, 1, 50):
        z = 1e4 * rng.choice([-1.0, 0.0, 1.0], label.shape)
        z[::3] = 1e4 * np.where(label[::3] > 0, -1, 1)  # the positive far below all others
        z[1::3] = 1e4 * np.where(label[1::3] > 0, 1, -1)
        printed = Candidates(z, label, sample_count, log_expected_count - 5)
        loss, slopes, state = answer(
            objective, *printed, state, n_updates, lr=0.5, dtype=np.float32
        )
        assert np.isfinite(loss)
        assert np.isfinite(slopes).all()
        assert np.isfinite(state).all()


@EVERY
def test_an_objective_says_whether_predictions_depend_on_the_noise(objective):
    rng = np.random.default_rng(2)
    objective.prepare(rng.integers(1, 9, K))
    z, noise = rng.normal(0, 2, (3, objective.n_rows(K))), rng.dirichlet(np.ones(K), 3)
    without, by_input = (
        objective.log_probability(z, np.zeros(K)),
        objective.log_probability(z, np.log(noise)),
    )
    assert np.allclose(without, by_input) != objective.adds_log_noise


@EVERY
@pytest.mark.parametrize("n_classes", [1, 2, 6])
def test_probabilities_sum_to_one(objective, n_classes):
    rng = np.random.default_rng(2)
    objective.prepare(rng.integers(0, 9, n_classes))
    z, noise = (
        rng.normal(0, 2, (2, 3, objective.n_rows(n_classes))),
        rng.dirichlet(np.ones(n_classes)),
    )
    log_p = objective.log_probability(z, np.log(noise))
    assert log_p.shape == (2, 3, n_classes)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=-1), 1, rtol=1e-6)


# ---- what draws do on average: every outcome of two draws among six classes


def positives(objective):
    """Labels (K,) of an input."""
    return np.array(
        [0, 0, 1, 0, 0.5, 0] if objective.positives == "joint" else [0, 0, 1.0, 0, 0, 0]
    )


def outcomes(objective, label, q):
    """probability (n,), sample_count (n, K) and log_expected_count (K,) of two draws from q.

    If q is None they are drawn from the others without replacement.
    """
    if q is None:
        others = np.flatnonzero(label == 0)
        pairs = list(itertools.combinations(others, 2))
        sample_count = np.array([[float(k in pair) for k in range(K)] for pair in pairs])
        return (
            np.full(len(pairs), 1 / len(pairs)),
            sample_count,
            np.full(K, np.log(2 / len(others))),
        )
    pairs = list(itertools.product(range(K), repeat=2))
    sample_count = np.array([[float(pair.count(k)) for k in range(K)] for pair in pairs])
    if not objective.keeps_accidental_hits:
        sample_count[:, label > 0] = 0
    return np.array([q[i] * q[j] for i, j in pairs]), sample_count, np.log(2 * q)


def expected_and_exact(objective, q):
    """(loss, coefficients) expected over the draws, and of sampler "all", at the same scores and
    the same optimal state.
    """
    label = positives(objective)
    z = np.random.default_rng(5).normal(0, 1.2, K)
    state = objective.optimal_state(z[None], label[None])
    uniforms = np.full((1, objective.uniforms_width), 0.6)
    probability, sample_count, log_expected_count = outcomes(objective, label, q)
    loss, slopes = 0.0, np.zeros(K)
    for p, drawn in zip(probability, sample_count, strict=True):
        shown = np.where((label > 0) | (drawn > 0), log_expected_count, 0)
        one, coefficients, _ = answer(
            objective, z, label, drawn, shown, state, n_draws=2, n_classes=K, uniforms=uniforms
        )
        loss, slopes = loss + p * one, slopes + p * coefficients[0]
    everything = np.ones(K) if objective.keeps_accidental_hits else (label == 0).astype(float)
    exact, wanted, _ = answer(
        objective,
        z,
        label,
        everything,
        np.zeros(K),
        state,
        n_draws=K,
        n_classes=K,
        uniforms=uniforms,
    )
    return (loss, slopes), (exact, wanted[0])


@each(lambda objective: objective.unbiased)
@pytest.mark.parametrize(
    "q", [UNIFORM, UNIGRAM, None], ids=["uniform", "unigram", "others without replacement"]
)
def test_draws_are_unbiased(objective, q):
    (loss, slopes), (exact, wanted) = expected_and_exact(objective, q)
    np.testing.assert_allclose(slopes, wanted, atol=1e-10)
    assert loss == pytest.approx(exact, abs=1e-10)


@each(lambda objective: objective.keeps_accidental_hits and objective.separable)
def test_with_noise_in_the_loss_all_rows_are_the_expectation_under_uniform_noise(objective):
    (loss, slopes), (exact, wanted) = expected_and_exact(objective, UNIFORM)
    np.testing.assert_allclose(slopes, wanted, atol=1e-7)  # constants are float32
    assert loss == pytest.approx(exact, abs=1e-6)


def slopes_at_the_truth(objective, p, q, n_draws):
    """The expected coefficients of scores log p, positives from p and draws from q, summed over all
    that can be drawn.
    """
    slopes = np.zeros(len(p))
    for y in range(len(p)):
        for drawn in itertools.product(range(len(p)), repeat=n_draws):
            label, sample_count = (
                np.eye(len(p))[y],
                np.bincount(drawn, minlength=len(p)).astype(float),
            )
            if not objective.keeps_accidental_hits:
                sample_count[y] = 0
            shown = np.where((label > 0) | (sample_count > 0), np.log(n_draws * q), 0)
            _, found, _ = answer(
                objective, np.log(p), label, sample_count, shown, n_draws=n_draws, n_classes=100
            )
            slopes += p[y] * q[list(drawn)].prod() * found[0]
    return slopes


@pytest.mark.parametrize("n_draws", [1, 2, 3])
@pytest.mark.parametrize("q", [UNIFORM, UNIGRAM], ids=["uniform", "unigram"])
def test_sampled_softmax_is_consistent_with_any_number_of_draws_if_hits_are_kept(q, n_draws):
    objective = make("sampled-softmax", keep_hits=True)
    p = np.random.default_rng(0).dirichlet(np.ones(K))
    np.testing.assert_allclose(slopes_at_the_truth(objective, p, q, n_draws), 0, atol=1e-12)


# ---- bounds


def exact_losses(z, y):
    return np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), y]


def all_rows(objective, z, y, state):
    """The losses, one by one, with all rows."""
    label, n = np.eye(z.shape[1])[y], z.shape[1]
    rows = zip(z, label, 1 - label, np.zeros_like(z), state[:, None], strict=True)
    return np.array([answer(objective, *row, n_draws=n, n_classes=n)[0] for row in rows])


@each(lambda objective: objective.bound)
def test_bounds_are_never_below_the_exact_loss_and_tightest_at_the_optimal_state(objective):
    z, y = some_scores()
    best = objective.optimal_state(z, np.eye(K)[y])
    losses = all_rows(objective, z, y, best)
    assert (losses >= exact_losses(z, y) - 1e-9).all()
    for column in range(objective.state_width):
        for step in (-0.1, 0.1, 1.0):
            moved = best.copy()
            moved[:, column] += step
            assert (all_rows(objective, z, y, moved) >= losses - 1e-9).all()


# ---- the optimum with free scores

P = np.array([0.35, 0.25, 0.2, 0.1, 0.07, 0.03])
Q = np.array([0.1, 0.1, 0.2, 0.1, 0.2, 0.3])


def fitted(objective, p, q, n_draws=4):
    """log_probability at the scores that minimise the expected loss, when classes occur with p and
    noise with q, no inputs.
    """
    n_classes = len(p)
    objective.prepare((1000 * p).astype(np.int64))
    label, (sample_count, log_expected_count) = (
        np.eye(n_classes),
        np.zeros((2, n_classes, n_classes)),
    )
    if paths := objective.paths():
        label = np.zeros((n_classes, objective.n_rows(n_classes)))
        sample_count, log_expected_count = label.copy(), label.copy()
        for k in range(n_classes):
            way = slice(paths.offsets[k], paths.offsets[k + 1])
            label[k, paths.nodes[way]], sample_count[k, paths.nodes[way]] = (
                paths.bits[way],
                1 - paths.bits[way],
            )
    elif objective.candidates == ("all",):
        sample_count = 1 - label
    else:
        # as often as expected
        sample_count[:], log_expected_count[:] = n_draws * q, np.log(n_draws * q)
        if not objective.keeps_accidental_hits:
            sample_count *= 1 - label

    def expected(z):
        loss, slope = 0.0, np.zeros(len(z))
        for k in range(n_classes):
            state = objective.optimal_state(z[None], np.eye(n_classes)[k : k + 1])
            printed = Candidates(z, label[k], sample_count[k], log_expected_count[k])
            one, c, _ = answer(objective, *printed, state, n_draws=n_draws, n_classes=n_classes)
            loss, slope = loss + p[k] * one, slope + p[k] * c[0]
        return loss, slope

    found = minimize(
        expected,
        np.zeros(label.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    return objective.log_probability(found.x, np.log(q)), found.x


CONSISTENT = ["softmax", "ns", "hs", "ar", "ove", "ova", "nce", "umax"]


@pytest.mark.parametrize(
    "name", [name for name in ALL if ALL[name].name in CONSISTENT and "-double" not in name]
)
def test_the_optimum_over_free_scores_is_the_distribution(name):
    log_p, _ = fitted(ALL[name], P, Q)
    np.testing.assert_allclose(np.exp(log_p), P, atol=2e-5)


# ---- each one's formula


def softmax_loss(p, y, n_draws):
    z, labels = p.z[p.weighed], p.label[p.weighed]
    return sum(label * reference.softmax_loss(z, k) for k, label in enumerate(labels))


def sampled_softmax_loss(p, y, n_draws):
    return p.label[y] * reference.sampled_softmax_loss(
        p.z, y, p.sample_count, p.log_expected_count, complementary=False
    )


FORMULAS = {  # of the candidates p, the positive's column y and the number of draws
    ("softmax",): softmax_loss,
    ("ns",): lambda p, y, n: reference.ns_loss(
        p.z, p.label, p.sample_count, negatives=5, n_draws=n
    ),
    ("nce",): lambda p, y, n: reference.nce_loss(
        p.z, p.label, p.sample_count, p.log_expected_count - np.log(n), 5, n
    ),
    ("ove",): lambda p, y, n: p.label[y] * reference.ove_loss(p.z, y, p.importance),
    ("ova",): lambda p, y, n: reference.ova_loss(p.z, p.label, p.importance),
    ("sampled-softmax",): sampled_softmax_loss,
    ("sampled-softmax", "keep_hits"): sampled_softmax_loss,
    ("sampled-softmax", "complementary"): lambda p, y, n: (
        p.label[y]
        * reference.sampled_softmax_loss(
            p.z, y, p.sample_count, p.log_expected_count, complementary=True
        )
    ),
}


@pytest.mark.parametrize("n_draws", [5, 40])
@pytest.mark.parametrize("which", FORMULAS, ids="-".join)
def test_the_loss_is_the_papers_formula_however_many_rows_are_drawn(which, n_draws):
    objective = make(which[0], **dict.fromkeys(which[1:], True))
    printed, y = one(objective)
    if which[0] == "sampled-softmax":
        printed.sample_count[y] *= 2  # 0 unless hits are kept
    loss, _, _ = answer(objective, *printed, n_draws=n_draws, n_classes=100)
    assert loss == pytest.approx(FORMULAS[which](printed, y, n_draws), rel=1e-6)


def test_ns_regularises_what_the_softmax_would_have_for_scores():
    """Bamler & Mandt 2020, eq. 6, with one negative and with several, and its gradient."""
    for negatives in (1, 5):
        objective = make("ns", negatives=negatives, score_l2=0.03)
        assert objective.uses_log_expected_count
        assert not make("ns").uses_log_expected_count
        printed, _ = one(objective)
        loss, slopes, _ = answer(objective, *printed)
        log_q = printed.log_expected_count - np.log(5)

        def exact(z, printed=printed, log_q=log_q, negatives=negatives):
            return reference.regularised_ns_loss(
                z, printed.label, printed.sample_count, log_q, 0.03, negatives, n_draws=5
            )

        assert loss == pytest.approx(exact(printed.z), rel=1e-6)
        np.testing.assert_allclose(slopes[0], approx_fprime(printed.z, exact, 1e-6), atol=1e-4)


def test_ns_is_far_off_without_removing_the_noise():
    _, z = fitted(make("ns"), P, Q)
    assert np.abs(np.exp(z) / np.exp(z).sum() - P).max() > 0.05


@pytest.mark.parametrize("complementary", [False, True])
@pytest.mark.parametrize("keep_hits", [False, True])
def test_sampled_softmax_of_all_rows_is_exact(complementary, keep_hits):
    z, y = some_scores()
    objective = make("sampled-softmax", complementary=complementary, keep_hits=keep_hits)
    np.testing.assert_allclose(all_rows(objective, z, y, np.zeros((20, 0))), exact_losses(z, y))
