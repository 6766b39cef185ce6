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
def weighted_coefficients(coefficients, weights, terms, state, constants, n_candidates, lr):
    """Summed loss of all terms of a batch; overwrites their scores by coefficients.

    `terms.state_row` is the example of a term. With weights, terms are passed to the objective one
    by one, because it returns only the sum of their losses.
    """
    n_terms = terms.z.shape[0]
    if weights.size == 0:
        return coefficients(terms, state, constants, n_terms, n_candidates, lr)
    loss = 0.0
    for p in range(n_terms):
        weight = weights[terms.state_row[p]]
        term = terms_of(terms, p, p + 1)
        loss += weight * coefficients(term, state, constants, 1, n_candidates, lr * weight)
        multiply_term(terms.z, p, n_candidates, weight)
    return loss


@kernel_part
def multiply_term(z, p, n_candidates, weight):
    """Multiply the coefficients of term p by the weight of its example."""
    for c in range(n_candidates):
        z[p, c] *= weight


@kernel
def weighted_batch(coefficients, weights, batch, state, constants, n_terms, n_candidates, lr):
    """`weighted_coefficients` of the first n_terms of a batch; callable from Python."""
    terms = terms_of(batch, 0, n_terms)
    return weighted_coefficients(coefficients, weights, terms, state, constants, n_candidates, lr)
