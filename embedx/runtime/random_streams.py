"""Numbers of the random streams of a seed, one for each purpose.

Training draws by (seed, epoch, chunk), so all of these are larger than any epoch. Changing a number
changes the models of a seed.
"""

INITIAL_PARAMETERS = 2**32
HELD_OUT_ROWS = 2**32 + 1
PERTURBED_ROWS = 2**32 + 7
# of the drawn rows of collapsed training
TAIL_ROWS = 2**33
CHUNK_ORDER = 2**34
# of the walks by which nodes are counted; those of the epochs come after it
WALKS = 2**35
# windows of tokens that are generated while training reads them
GENERATED_WINDOWS = 2**36
