"""Training on sparse features with dense weights, in tiles of 32 labels, for a loss that is a sum
over labels.

A tile is copied out of the table once per chunk of minibatches, trained, and copied back.
"""

from numpy import uint32

from embedx.engine.tiles import TILE_WIDTH, TileExamples, train_step, write_weights
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import SIMD_WIDTH, load, store
from embedx.optimizers.decay import clock_step, decay_rows


@kernel
def train_columns(coefficients, examples, shared, plan, workspace, first, last, decay_clock):
    """Train columns first:last of the transposed output rows, whole tiles, on the examples; return
    the summed loss.

    The examples are stored in the order of training, because every tile reads them all. No decay is
    pending before or after.
    """
    loss = 0.0
    steps = workspace.steps
    buffers = workspace.examples
    table = shared.outputs
    tile = steps.tile
    n = examples.label_offsets.size - 1
    for i in range(n):
        workspace.order[i] = i
    tile_examples = TileExamples(
        examples.offsets,
        examples.columns,
        examples.values,
        buffers.positive_bits,
        buffers.positive_weight,
        buffers.negative_weight,
        buffers.skips,
        buffers.previous_skips,
    )
    for t in range(first, last, TILE_WIDTH):
        clock = decay_clock
        _copy(table.rows, t, tile.rows, 0)
        _copy(table.state, t, tile.state, 0)
        tile.decay_clock[:] = clock
        _write_labels(examples, plan, buffers, n, t)
        for begin in range(0, n, plan.batch_size):
            chosen = workspace.order[begin : min(begin + plan.batch_size, n)]
            loss += train_step(
                coefficients,
                tile_examples,
                steps,
                plan,
                chosen,
                min(shared.plan.n_outputs - t, TILE_WIDTH),
                plan.lr,
                clock,
            )
            clock += clock_step(plan.optimizer, plan.lr)
        decay_rows(tile, 0, tile.rows.shape[0] - plan.has_bias, TILE_WIDTH, plan.optimizer, clock)
        _copy(tile.rows, 0, table.rows, t)
        _copy(tile.state, 0, table.state, t)
    return loss


@kernel_part
def _write_labels(examples, plan, buffers, n, first_label):
    """Write the weights of n examples, and which labels of the tile from `first_label` on they
    have: bit k of the mask is label first_label + k.
    """
    for i in range(n):
        buffers.positive_bits[i] = 0
        write_weights(examples, plan, i, buffers, i)
        for at in range(examples.label_offsets[i], examples.label_offsets[i + 1]):
            k = examples.label_ids[at] - first_label
            if 0 <= k < TILE_WIDTH:
                buffers.positive_bits[i] |= uint32(1) << uint32(k)


@kernel_part
def _copy(source, source_column, target, target_column):
    """Copy a tile, 32 columns of every row."""
    for row in range(source.shape[0]):
        for d in range(0, TILE_WIDTH, SIMD_WIDTH):
            store(target, row, target_column + d, load(source, row, source_column + d))
