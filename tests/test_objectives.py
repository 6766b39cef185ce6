"""What holds for every objective, over the registry; then what theory says of each."""

import itertools

import numpy as np
import pytest
import reference
from scipy.optimize import approx_fprime, minimize

from embedx.testing import objectives as contract
from embedx.testing.objectives import (
    UNIFORM,
    UNIGRAM,
    Candidates,
    Conditions,
    K,
    all_rows,
    evaluate,
    exact_losses,
    expected_and_exact,
    outcomes,
    some_scores,
)
from tests.support.objectives import ALL, make, one_example


def objectives_where(holds=lambda objective: True):
    """Run a test for each objective of which this holds."""
    chosen = {name: objective for name, objective in ALL.items() if holds(objective)}
    return pytest.mark.parametrize("objective", list(chosen.values()), ids=list(chosen))


EVERY_OBJECTIVE = objectives_where()


@EVERY_OBJECTIVE
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_an_objective_keeps_its_contract(objective, check):
    check(objective)


@objectives_where(
    lambda objective: objective.traits.keeps_accidental_hits and objective.traits.separable
)
def test_with_noise_in_the_loss_all_rows_are_the_expectation_under_uniform_noise(objective):
    (loss, slopes), (exact, exact_slopes) = expected_and_exact(objective, UNIFORM)
    np.testing.assert_allclose(slopes, exact_slopes, atol=1e-7)  # constants are float32
    assert loss == pytest.approx(exact, abs=1e-6)


def slopes_at_the_truth(objective, p, q, n_draws):
    """The expected coefficients of scores log p, positives from p and draws from q, summed over all
    that can be drawn.
    """
    slopes = np.zeros(len(p))
    for y in range(len(p)):
        for drawn in itertools.product(range(len(p)), repeat=n_draws):
            label = np.eye(len(p))[y]
            sample_count = np.bincount(drawn, minlength=len(p)).astype(float)
            if not objective.traits.keeps_accidental_hits:
                sample_count[y] = 0
            log_expected = np.where((label > 0) | (sample_count > 0), np.log(n_draws * q), 0)
            candidates = Candidates(np.log(p), label, sample_count, log_expected)
            conditions = Conditions(n_draws=n_draws, n_classes=100)
            slopes_of_draw = evaluate(objective, candidates, conditions=conditions).slopes[0]
            slopes += p[y] * q[list(drawn)].prod() * slopes_of_draw
    return slopes


@pytest.mark.parametrize("n_draws", [1, 2, 3])
@pytest.mark.parametrize("q", [UNIFORM, UNIGRAM], ids=["uniform", "unigram"])
def test_sampled_softmax_is_consistent_with_any_number_of_draws_if_hits_are_kept(q, n_draws):
    objective = make("sampled-softmax", keep_hits=True)
    p = np.random.default_rng(0).dirichlet(np.ones(K))
    np.testing.assert_allclose(slopes_at_the_truth(objective, p, q, n_draws), 0, atol=1e-12)


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
        label = np.zeros((n_classes, objective.n_outputs(n_classes)))
        sample_count = label.copy()
        log_expected_count = label.copy()
        for k in range(n_classes):
            path = slice(paths.offsets[k], paths.offsets[k + 1])
            label[k, paths.nodes[path]] = paths.bits[path]
            sample_count[k, paths.nodes[path]] = 1 - paths.bits[path]
    elif objective.candidates == ("all",):
        sample_count = 1 - label
    else:
        # as often as expected
        sample_count[:] = n_draws * q
        log_expected_count[:] = np.log(n_draws * q)
        if not objective.traits.keeps_accidental_hits:
            sample_count *= 1 - label

    def expected(z):
        loss = 0.0
        slope = np.zeros(len(z))
        for k in range(n_classes):
            state = objective.optimal_state(z[None], np.eye(n_classes)[k : k + 1])
            candidates = Candidates(z, label[k], sample_count[k], log_expected_count[k])
            conditions = Conditions(n_draws=n_draws, n_classes=n_classes)
            loss_of_class, slopes, _ = evaluate(objective, candidates, state, conditions)
            loss += p[k] * loss_of_class
            slope += p[k] * slopes[0]
        return loss, slope

    optimum = minimize(
        expected,
        np.zeros(label.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9},
    )
    return objective.log_probability(optimum.x, np.log(q)), optimum.x


CONSISTENT = ["softmax", "ns", "hs", "ar", "ove", "ova", "nce", "umax", "scgd"]


def is_consistent(name):
    """Whether an objective is consistent, and scores are not pulled to zero."""
    objective = ALL[name]
    has_penalty = getattr(objective.settings, "score_l2", 0.0) > 0
    return objective.name in CONSISTENT and "-double" not in name and not has_penalty


@pytest.mark.parametrize("name", list(filter(is_consistent, ALL)))
def test_the_optimum_over_free_scores_is_the_distribution(name):
    log_p, _ = fitted(ALL[name], P, Q)
    np.testing.assert_allclose(np.exp(log_p), P, atol=2e-5)


# ---- formulas of the papers


def softmax_loss(p, y, n_draws):
    z = p.z[p.weighed]
    labels = p.label[p.weighed]
    return sum(label * reference.softmax_loss(z, k) for k, label in enumerate(labels))


def sampled_softmax_loss(p, y, n_draws):
    return p.label[y] * reference.sampled_softmax_loss(p.z, y, p.sample_count, p.log_expected_count)


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
    ("complementary-sum",): lambda p, y, n: (
        p.label[y] * reference.complementary_sum_loss(p.z, y, p.sample_count, p.log_expected_count)
    ),
}


@pytest.mark.parametrize("n_draws", [5, 40])
@pytest.mark.parametrize("which", FORMULAS, ids="-".join)
def test_the_loss_is_the_papers_formula_however_many_rows_are_drawn(which, n_draws):
    objective = make(which[0], **dict.fromkeys(which[1:], True))
    candidates, y = one_example(objective)
    if which[0] == "sampled-softmax":
        candidates.sample_count[y] *= 2  # 0 unless hits are kept
    conditions = Conditions(n_draws=n_draws, n_classes=100)
    loss = evaluate(objective, candidates, conditions=conditions).loss
    assert loss == pytest.approx(FORMULAS[which](candidates, y, n_draws), rel=1e-6)


def test_score_l2_penalises_the_softmax_scores_of_ns():
    """Bamler & Mandt 2020, eq. 6, with one negative and with several, and its gradient."""
    for negatives in (1, 5):
        objective = make("ns", negatives=negatives, score_l2=0.03)
        assert objective.traits.uses_log_expected_count
        assert not make("ns").traits.uses_log_expected_count
        candidates, _ = one_example(objective)
        loss, slopes, _ = evaluate(objective, candidates)
        log_q = candidates.log_expected_count - np.log(5)

        def exact(z, candidates=candidates, log_q=log_q, negatives=negatives):
            return reference.regularised_ns_loss(
                z, candidates.label, candidates.sample_count, log_q, 0.03, negatives, n_draws=5
            )

        assert loss == pytest.approx(exact(candidates.z), rel=1e-6)
        np.testing.assert_allclose(slopes[0], approx_fprime(candidates.z, exact, 1e-6), atol=1e-4)


def test_log_probability_of_ns_needs_the_correction_for_noise():
    _, z = fitted(make("ns"), P, Q)
    assert np.abs(np.exp(z) / np.exp(z).sum() - P).max() > 0.05


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sampled-softmax", {}),
        ("sampled-softmax", {"keep_hits": True}),
        ("complementary-sum", {}),
    ],
)
def test_a_sampled_softmax_of_all_rows_is_exact(name, settings):
    z, y = some_scores()
    objective = make(name, **settings)
    np.testing.assert_allclose(all_rows(objective, z, y, np.zeros((20, 0))), exact_losses(z, y))


def complementary_sums(q):
    """The scores, the losses of a complementary sum over all outcomes of two draws, and the
    probabilities of these.
    """
    objective = make("complementary-sum")
    label = np.eye(K)[2]
    z = np.random.default_rng(5).normal(0, 0.1, K)
    draws = outcomes(objective, label, q)
    losses = []
    for drawn in draws.sample_count:
        log_expected = np.where((label > 0) | (drawn > 0), draws.log_expected_count, 0)
        losses.append(evaluate(objective, Candidates(z, label, drawn, log_expected)).loss)
    return z, np.array(losses), draws.probability


@pytest.mark.parametrize("q", [UNIFORM, UNIGRAM, None], ids=["uniform", "unigram", "distinct"])
def test_the_complementary_sum_estimates_the_normaliser_and_is_above_the_likelihood(q):
    z, losses, probability = complementary_sums(q)
    normaliser = np.exp(z).sum()
    assert probability @ np.exp(losses + z[2]) == pytest.approx(normaliser, rel=1e-6)
    assert probability @ losses < np.log(normaliser) - z[2]


def test_the_complementary_sum_is_too_low_by_half_its_relative_variance():
    z, losses, probability = complementary_sums(None)
    normaliser = np.exp(z).sum()
    variance = probability @ (np.exp(losses + z[2]) / normaliser - 1) ** 2
    gap = np.log(normaliser) - z[2] - probability @ losses
    assert gap == pytest.approx(variance / 2, rel=0.05)
