"""Coefficients of weighted examples: the weight of an example multiplies its loss.

    loss w · φ(z)      coefficients w · ∂φ/∂z      state by gradient steps at the rate w · lr

The coefficients of a proximal step are the step over -lr. The step on w · φ at rate lr equals the
step on φ at rate w · lr. So both kinds of objectives are called with w · lr, and their coefficients
are multiplied by w.
"""

from embedx.kernels.batch import Batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.maths import ONE


@kernel_part
def weight_of(weights, i):
    """The weight of example i; 1 where there are no weights."""
    return weights[i] if weights.size > 0 else ONE


@kernel_part
def terms_of(batch, first, last):
    """The terms first:last of a batch, a view."""
    return Batch(
        batch.z[first:last],
        batch.label[first:last],
        batch.sample_count[first:last],
        batch.log_expected_count[first:last],
        batch.uniforms[first:last],
        batch.state_row[first:last],
        batch.n_updates[first:last],
        batch.score_gain[first:last],
    )


@kernel_part
def weighted_coefficients(
    coefficients, weights, batch, state, constants, first, last, n_candidates, lr
):
    """Summed loss of the terms first:last; overwrites their scores by coefficients.

    `batch.state_row` is the example of a term. With weights, terms are passed to the objective one
    by one, because it returns only the sum of their losses.
    """
    if weights.size == 0:
        terms = terms_of(batch, first, last)
        return coefficients(terms, state, constants, last - first, n_candidates, lr)
    loss = 0.0
    for p in range(first, last):
        weight = weights[batch.state_row[p]]
        term = terms_of(batch, p, p + 1)
        loss += weight * coefficients(term, state, constants, 1, n_candidates, lr * weight)
        multiply_term(batch.z, p, n_candidates, weight)
    return loss


@kernel_part
def multiply_term(z, p, n_candidates, weight):
    """Multiply the coefficients of term p by the weight of its example."""
    for c in range(n_candidates):
        z[p, c] *= weight


@kernel
def weighted_batch(coefficients, weights, batch, state, constants, n_terms, n_candidates, lr):
    """`coefficients` of all terms of a batch, weighted; callable from Python."""
    return weighted_coefficients(
        coefficients, weights, batch, state, constants, 0, n_terms, n_candidates, lr
    )
