"""Encoders of text: the examples of a block, and how the vector h of an example is computed from
the vectors of its words.

    x_j  vectors of the inputs of a block: rows of the table, or means of rows
         (`embedx.engine.subwords`)
    h_e  vectors of the examples, which are multiplied by the output rows

An encoder is a file of this folder, named in NAMES. It has five kernel parts:

    start_examples(block, n_centres, n_inputs)         start a block; return the number of its
                                                       examples
    write_examples(block, words, y, i, begin, end)     write the examples whose positive is centre
                                                       i, which is words[y], to
                                                       block.centre_examples; return how many. The
                                                       inputs are words[begin:end]. Where x and h
                                                       are not the same memory, write also
                                                       block.state_row of the examples, and count
                                                       pairs in block.n_pairs_of_input
    fetch(block, n_x, n_h, x, h, bias)                 overwrite h[:n_h], in whole tiles, from
                                                       x[:n_x]; column `bias` of x is 1 and must be
                                                       1 in h; it is -1 if there is none
    backward(block, n_x, n_h, h_gradient, x_gradient)  overwrite the gradients of x[:n_x], in whole
                                                       tiles, from those of h[:n_h]
    fetch_rates(block, n_x, n_h, x_rate, h_rate)       overwrite the rates at which h[:n_h] move
                                                       along their gradients

one numpy function, for the scores of held-out pairs:

    vectors_of(vectors, inputs)                        the vectors h, float32 (n, dim), for the
                                                       inputs of n pairs

and four constants: PAIR, the unit of the mean loss; PER_CONTEXT, whether a centre has a pair for
each context or one for all; DEFAULTS of settings; ABOUT for the help. In skip-gram x and h are the
same memory, and so are their gradients.
"""

from importlib import import_module

from embedx.kernels import chosen_by_number

NAMES = ("skipgram", "cbow")  # as the user types them after --architecture
ENCODERS = {name: import_module(f"{__name__}.{name}") for name in NAMES}
SKIPGRAM = NAMES.index("skipgram")


def pairs_of_centre(architecture: str, n_contexts: float) -> float:
    """Number of pairs of a centre with n_contexts."""
    return n_contexts if ENCODERS[architecture].PER_CONTEXT else 1.0


start_examples, write_examples, fetch, backward, fetch_rates = (
    chosen_by_number([getattr(encoder, name) for encoder in ENCODERS.values()])
    for name in ("start_examples", "write_examples", "fetch", "backward", "fetch_rates")
)
