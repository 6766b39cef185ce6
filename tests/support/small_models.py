"""A small model of word vectors."""

import numpy as np

from embedx.vectors import model


def toy(n=50, dim=6, seed=1):
    """Arguments of `save`: padded tables such as the trainer has, an int64 state, decreasing
    counts.
    """
    rng = np.random.default_rng(seed)
    padded = rng.normal(size=(2, n, 16)).astype(np.float32)
    return {
        "words": [f"w{i}" for i in range(n)],
        "counts": np.arange(n, 0, -1) * 10,
        "arrays": {
            "input": padded[0, :, :dim],
            "output": padded[1, :, :dim],
            "output_bias": padded[1, :, dim],
        },
        "settings": {"dim": dim, "sample": 1e-4},
        "facts": {"objective": "ns", "final_loss": np.float32(0.5)},
    }


def save(folder, overwrite=False, **fields):
    return model.WordVectors(**fields).save(folder, overwrite)
