"""Blocks one by one, straight from the definitions in `embedx.engine.blocks` and
`embedx.engine.skipgram`, in float64.

An objective is handed one line at a time. That a line of several positives stands for its pairs is
tested with the objectives.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import reference

from embedx.engine.blocks import FORM_MERGED, FORM_PER_PAIR, FORM_SUMMED
from embedx.engine.encoders import SKIPGRAM
from embedx.engine.skipgram import LONGEST_STEP, SECOND_ORDER
from embedx.kernels.batch import Batch
from embedx.samplers.alias import draw
from embedx.testing.objectives import coefficients_of


class Line(NamedTuple):
    """An example: the places of its candidates in the block, and what the objective is told of
    each.
    """

    places: list
    label: list
    sample_count: list
    log_expected_count: list


class Example(NamedTuple):
    """The word by which its state is kept, the places of the inputs whose mean it is, and what the
    objective is told.
    """

    state_row: int
    contexts: list
    lines: list


class Block(NamedTuple):
    """The output rows that are candidates, the words of the inputs in text order, and
    the examples.
    """

    rows: list
    inputs: list
    examples: list


def examples_of(pairs, kept, encoder):
    """The row of the state, the places of the inputs, and how often each centre word is the
    positive, of each example of some pairs; and the words of the inputs.
    """
    inputs = sorted({pair[3] for pair in pairs})
    place = {x: j for j, x in enumerate(inputs)}
    words = [kept[x][1] for x in inputs]
    if encoder == SKIPGRAM:
        return [
            (kept[x][1], [place[x]], Counter(pair[1] for pair in pairs if pair[3] == x))
            for x in inputs
        ], words
    centres = sorted({pair[2] for pair in pairs})
    contexts = {y: [place[pair[3]] for pair in pairs if pair[2] == y] for y in centres}
    return [(kept[y][1], contexts[y], Counter([kept[y][1]])) for y in centres], words


def lines_of_draws(n_pairs_of, centres, noise, log_expected, form, keeps_accidental_hits):
    """The lines of an input with so many pairs of each centre; `noise` is how often each word was
    drawn. With FORM_MERGED no centre is drawn.
    """
    words = [*centres, *noise]
    everything = list(range(len(words)))
    drawn = [noise[word] for word in noise]
    label = [n_pairs_of[y] for y in centres] + [0] * len(noise)
    log_counts = [log_expected[word] for word in words]
    if form == FORM_SUMMED:
        n_pairs = sum(n_pairs_of.values())
        return [
            Line(
                everything,
                label,
                [0] * len(centres) + [n_pairs * count for count in drawn],
                log_counts,
            )
        ]
    if form == FORM_MERGED:
        certain = [0 if n_pairs_of[y] else 1 for y in centres]
        return [
            Line(
                everything, label, certain + drawn, [0] * len(centres) + log_counts[len(centres) :]
            )
        ]
    lines = []
    for i, y in enumerate(centres):
        if n_pairs_of[y]:
            others = [0 if word == y else noise[word] for word in noise]
            places = [i, *everything[len(centres) :]]
            hits = noise.get(y, 0) if keeps_accidental_hits else 0
            lines.append(
                Line(
                    places,
                    [n_pairs_of[y]] + [0] * len(noise),
                    [hits, *others],
                    [log_counts[place] for place in places],
                )
            )
    return lines


def lines_of_all(n_pairs_of, n_rows, form, keeps_accidental_hits):
    """The same where all rows are candidates."""
    n_pairs = sum(n_pairs_of.values())
    labels_of_examples = (
        [{y: n} for y, n in n_pairs_of.items()] if form == FORM_PER_PAIR else [n_pairs_of]
    )
    noise_count = n_pairs if form == FORM_SUMMED else 1
    return [
        Line(
            list(range(n_rows)),
            [positives.get(k, 0) for k in range(n_rows)],
            [
                noise_count if keeps_accidental_hits or k not in positives else 0
                for k in range(n_rows)
            ],
            [0] * n_rows,
        )
        for positives in labels_of_examples
    ]


def lines_of_paths(n_pairs_of, nodes, paths):
    """The same with a tree: how often the input turns to 1, and to 0, at each node."""
    ones = Counter()
    zeros = Counter()
    for y, n in n_pairs_of.items():
        for at in range(paths.offsets[y], paths.offsets[y + 1]):
            ones[int(paths.nodes[at])] += n * int(paths.bits[at])
            zeros[int(paths.nodes[at])] += n * (1 - int(paths.bits[at]))
    return [
        Line(
            list(range(len(nodes))),
            [ones[k] for k in nodes],
            [zeros[k] for k in nodes],
            [0] * len(nodes),
        )
    ]


def groups_of(pairs, kept, start, stop, block_size):
    """The pairs (input word, centre word, centre, input) of each block, and its centre words in
    text order.
    """
    if block_size == 0:
        return [([pair], [pair[1]]) for pair in pairs]
    centres = [i for i, (position, *_) in enumerate(kept) if start <= position < stop]
    blocks = [centres[first : first + block_size] for first in range(0, len(centres), block_size)]
    return [
        ([pair for pair in pairs if pair[2] in block], [kept[i][1] for i in block])
        for block in blocks
    ]


def blocks_of(setup, start, stop):
    """Every block of tokens[start:stop], as a `Setup` of `skipgram_setup` plans it."""
    plan = setup.plan
    paths = setup.objective.paths()
    keeps_accidental_hits = setup.objective.traits.keeps_accidental_hits
    kept = setup.kept()
    pairs = reference.pairs_of(kept, start, stop)
    blocks = []
    for number, (together, words) in enumerate(
        groups_of(pairs, kept, start, stop, plan.block_size)
    ):
        centres = list(dict.fromkeys(words))
        drawn = [
            int(draw(setup.alias, setup.noise_key, np.uint64(plan.n_draws * number + i)))
            for i in range(plan.n_draws)
        ]
        noise = Counter(word for word in drawn if plan.form != FORM_MERGED or word not in centres)
        if setup.sampler == "path":
            rows = [
                int(k)
                for y in centres
                for k in paths.nodes[paths.offsets[y] : paths.offsets[y + 1]]
            ]
            rows = list(dict.fromkeys(rows))
        else:
            rows = list(range(plan.n_outputs)) if setup.sampler == "all" else [*centres, *noise]
        examples = []
        described, inputs = examples_of(together, kept, plan.encoder)
        for state_row, contexts, n_pairs_of in described:
            if setup.sampler == "path":
                lines = lines_of_paths(n_pairs_of, rows, paths)
            elif setup.sampler == "all":
                lines = lines_of_all(n_pairs_of, plan.n_outputs, plan.form, keeps_accidental_hits)
            else:
                lines = lines_of_draws(
                    n_pairs_of,
                    centres,
                    noise,
                    setup.sampler_data.log_expected,
                    plan.form,
                    keeps_accidental_hits,
                )
            examples.append(Example(state_row, contexts, lines))
        blocks.append(Block(rows, inputs, examples))
    return blocks


class Naive:
    """Tables in float64 that take their steps one row after the other."""

    def __init__(self, tables, optimizer, objective, constants, bias, dim):
        self.inputs, self.outputs = (table.rows.astype(np.float64) for table in tables[:2])
        self.input_state, self.output_state = (
            np.zeros_like(self.inputs),
            np.zeros_like(self.outputs),
        )
        self.state = tables.objective_state.astype(np.float64)
        self.optimizer = optimizer
        self.n_updates = Counter()
        self.objective = objective
        self.constants = constants.astype(np.float64)
        self.bias = bias
        self.coefficients = coefficients_of(objective)
        self.dim = dim
        offsets, rows = tables.parts
        n_words = len(tables.objective_state)
        self.parts = [
            rows[offsets[k] : offsets[k + 1]] if len(rows) else [k] for k in range(n_words)
        ]

    def answer(self, z, line, word, score_gain, lr):
        """The loss and the coefficients of one line of `word`."""
        batch = Batch(
            *(
                np.array([column], dtype=np.float64)
                for column in (z, line.label, line.sample_count, line.log_expected_count)
            ),
            uniforms=np.zeros((1, 0)),
            state_row=np.array([word]),
            n_updates=np.array([self.n_updates[word]]),
            score_gain=np.array([score_gain], dtype=np.float64),
        )
        loss = self.coefficients(batch, self.state, self.constants, 1, len(z), np.float64(lr))
        self.n_updates[word] += 1
        return loss, batch.z[0]

    def train(self, block, lr):
        """One step on a block: all scores are from before it. Returns the summed loss."""
        if not block.examples:
            return 0.0
        x = np.array([self.inputs[self.parts[word]].mean(axis=0) for word in block.inputs])
        h = np.array([x[example.contexts].mean(axis=0) for example in block.examples])
        w = self.outputs[block.rows]
        max_input_rate, max_row_rate = self.max_rates(block, h, w)
        gains = self.score_gains(block, h, w, lr, max_input_rate, max_row_rate)
        loss, h_gradient, w_gradient = self.gradients(block, h, w, gains, lr)

        x_gradient = np.zeros_like(x)
        for example, gradient in zip(block.examples, h_gradient, strict=True):
            x_gradient[example.contexts] += gradient
        if self.bias >= 0:
            x_gradient[:, self.bias] = 0
        inputs = (self.inputs, self.input_state)
        for word, gradient in zip(block.inputs, x_gradient, strict=True):
            for part in self.parts[word]:
                self.descend(inputs, part, gradient, lr, max_input_rate)
        outputs = (self.outputs, self.output_state)
        for row, gradient in zip(block.rows, w_gradient, strict=True):
            self.descend(outputs, row, gradient, lr, max_row_rate)
        return loss

    def without_bias(self, w):
        return np.delete(w, self.bias, axis=1) if self.bias >= 0 else w

    def max_rates(self, block, h, w):
        """The maximum rates of inputs and of output rows: infinite unless steps are proximal."""
        if self.objective.step != "proximal":
            return np.inf, np.inf
        n_pairs = Counter()
        for example in block.examples:
            for j in example.contexts:
                n_pairs[j] += sum(sum(line.label) for line in example.lines)
        squares = np.sum(self.without_bias(w) ** 2, axis=1)
        bound = min(squares.sum(), 4 * max(n_pairs.values()) * squares.max())
        return LONGEST_STEP / bound, LONGEST_STEP / np.sum(h**2)

    def score_gains(self, block, h, w, lr, max_input_rate, max_row_rate):
        """(examples, rows): by how much a step moves each score, per unit of its coefficient."""
        input_rates = np.array(
            [
                self.rates(self.input_state[self.parts[word]], lr, max_input_rate).mean()
                for word in block.inputs
            ]
        )
        h_rates = np.array([input_rates[example.contexts].mean() for example in block.examples])
        row_rates = self.rates(self.output_state[block.rows], lr, max_row_rate)
        h_squares = np.sum(h**2, axis=1)
        w_squares = np.sum(self.without_bias(w) ** 2, axis=1)
        return np.outer(h_squares, row_rates) + np.outer(h_rates, w_squares)

    def gradients(self, block, h, w, gains, lr):
        """The summed loss, and its gradients by h and w."""
        state_lr = lr
        if reference.NAIVE_OPTIMIZERS[self.optimizer].by_row:
            state_lr = lr / np.sqrt(self.dim)
        loss = 0.0
        h_gradient = np.zeros_like(h)
        w_gradient = np.zeros_like(w)
        for e, example in enumerate(block.examples):
            for line in example.lines:
                rows = w[line.places]
                gain = gains[e, line.places] / state_lr
                loss_of_line, c = self.answer(rows @ h[e], line, example.state_row, gain, state_lr)
                loss += loss_of_line
                h_gradient[e] += c @ rows
                w_gradient[line.places] += np.outer(c, h[e])
        return loss, h_gradient, w_gradient

    def descend(self, table, row, gradient, lr, max_rate):
        """A step of a row of a table, (rows, optimizer state)."""
        max_length = np.inf
        if self.objective.step == "proximal":
            max_length = np.sqrt(SECOND_ORDER * LONGEST_STEP)
        rows, state = table
        reference.descend(self.optimizer, rows[row], state[row], gradient, lr, max_rate, max_length)

    def rates(self, states, lr, max_rate):
        """The learning rate of each row by the optimizer's state before the step."""
        naive = reference.NAIVE_OPTIMIZERS[self.optimizer]
        divisors = [max(naive.divisor(state[0]), 1e-6) if naive.by_row else 1.0 for state in states]
        return np.array([min(lr / divisor, max_rate) for divisor in divisors])
