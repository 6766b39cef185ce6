"""Score gains of a block of text: how far a step of a row moves its scores, for proximal steps."""

from numpy import float32, int64

from embedx.engine.blocks import EXAMPLES, INPUTS
from embedx.engine.encoders import fetch_rates
from embedx.engine.subwords import n_parts, part
from embedx.kernels import ONE, SIMD_WIDTH, ZERO, kernel_part, load, multiply_add, sum_of, zeros
from embedx.optimizers.descend import row_divisor

# Replaces 0 in a denominator.
TINY = float32(1e-30)


@kernel_part
def _squared_norm(rows, r):
    """|rows[r]|²."""
    total = zeros()
    for d in range(0, rows.shape[1], SIMD_WIDTH):
        x = load(rows, r, d)
        total = multiply_add(x, x, total)
    return sum_of(total)


@kernel_part
def measure_block(shared, workspace, block, n, lr):
    """Write the maximum rates of the rows of a block of n candidates, and the parts of its score
    gains.

        max_output_rate = longest_step / Σ_e |h_e|²,  e over the examples with pairs
        max_input_rate  = longest_step / min(Σ_k |w_k|², 4 max pairs max_k |w_k|²)

    With the first bound, a row's step moves no score by more than `longest_step` if all
    coefficients are 1. With the second, a step of h moves no difference of two scores by more: the
    coefficients of a pair have an absolute sum of at most 2, and |w_a - w_b| is at most 2 max_k
    |w_k|. h does not move along the biases. For an adaptive optimizer, the rate of its last step is
    used: later gradients can only lower it.
    """
    plan = shared.plan
    n_inputs = block.sizes[INPUTS]
    n_examples = block.sizes[EXAMPLES]
    max_output_rate = workspace.max_output_rate
    max_input_rate = workspace.max_input_rate
    max_output_rate[0] = _max_rate_of_outputs(workspace, block, n_examples)
    max_input_rate[0] = _max_rate_of_inputs(plan, workspace, block, n, n_inputs)
    per_lr = ONE / max(lr * plan.optimizer.state_rate, TINY)
    for k in range(n):
        divisor = row_divisor(shared.tables.outputs, int64(block.candidates[k]), plan.optimizer)
        workspace.row_step[k] = min(lr / divisor, max_output_rate[0]) * per_lr
    for j in range(n_inputs):
        rate = _input_rate(shared, int64(block.inputs[j]), max_input_rate[0], lr)
        workspace.x_step[j] = rate * per_lr
    fetch_rates(plan.encoder, block, n_inputs, n_examples, workspace.x_step, workspace.h_step)


@kernel_part
def _max_rate_of_outputs(workspace, block, n_examples):
    """The maximum rate of the output rows of a block; writes h_square."""
    sum_of_squares = ZERO
    for e in range(n_examples):
        workspace.h_square[e] = _squared_norm(workspace.h, e)
        sum_of_squares += min(block.n_pairs_of_example[e], 1) * workspace.h_square[e]
    return workspace.longest_step[0] / max(sum_of_squares, TINY)


@kernel_part
def _max_rate_of_inputs(plan, workspace, block, n_candidates, n_inputs):
    """The maximum rate of the inputs of a block; writes row_square."""
    sum_of_squares = ZERO
    largest_square = ZERO
    max_pairs = ZERO
    for k in range(n_candidates):
        bias = workspace.w[k, plan.bias] if plan.bias >= 0 else ZERO
        square = _squared_norm(workspace.w, k) - bias * bias
        workspace.row_square[k] = square
        sum_of_squares += square
        largest_square = max(largest_square, square)
    for j in range(n_inputs):
        max_pairs = max(max_pairs, float32(block.n_pairs_of_input[j]))
    bound = min(sum_of_squares, float32(4) * max_pairs * largest_square)
    return workspace.longest_step[0] / max(bound, TINY)


@kernel_part
def _input_rate(shared, word, max_rate, lr):
    """The rate of a word's step: the mean over its rows, because its vector is their mean."""
    tables = shared.tables
    n = n_parts(tables.parts, word)
    divisor = row_divisor(tables.inputs, part(tables.parts, word, 0), shared.plan.optimizer)
    rate = min(lr / divisor, max_rate)
    if n == 1:
        return rate
    for p in range(1, n):
        divisor = row_divisor(tables.inputs, part(tables.parts, word, p), shared.plan.optimizer)
        rate += min(lr / divisor, max_rate)
    return rate / float32(n)


@kernel_part
def score_gain(workspace, e, k):
    """Change of the score of example e and candidate k per unit of its coefficient and of the
    learning rate given to `coefficients`, if only this pair were trained.
    """
    return (
        workspace.h_square[e] * workspace.row_step[k]
        + workspace.row_square[k] * workspace.h_step[e]
    )
