"""Files of NumPy arrays."""

import io

import numpy as np


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()
