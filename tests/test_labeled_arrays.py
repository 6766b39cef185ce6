"""Features and labels in binary files: `.npy`, `.npz` and IDX."""

import gzip
import io
import struct

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_matrix, save_npz

from embedx.labeled.read import read
from tests.support.label_data import label_rows
from tests.support.notes import Notes, lines_with


def idx(array, code=0x08):
    return (
        bytes([0, 0, code, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def test_arrays_are_read_into_memory(tmp_path):
    """A page of a mapped file that is cut off would end the process by SIGBUS."""
    np.save(tmp_path / "x.npy", np.ones((2, 2), np.float32))
    np.save(tmp_path / "y.npy", np.zeros(2, np.int32))
    data = read(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    for array in (data.features, data.labels.ids):
        while array is not None:
            assert not isinstance(array, np.memmap)
            array = array.base


def test_float32_arrays_that_take_most_of_the_memory_are_mapped_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr("embedx.labeled.formats.arrays.available_memory", lambda: 48)
    np.save(tmp_path / "x.npy", np.arange(9, dtype=np.float32).reshape(3, 3))
    np.save(tmp_path / "y.npy", np.array([0, 2, 1]))  # half of the memory
    notes = Notes()
    data = read(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), progress=notes)
    (note,) = notes.notes
    assert lines_with(note, "x.npy: 0.0 GB", "memory-mapped")
    assert isinstance(data.features, np.memmap) or isinstance(data.features.base, np.memmap)
    assert data.features.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert label_rows(data) == [[0], [2], [1]]
    assert data.n_labels == 3
    assert not data.is_sparse


@pytest.mark.parametrize("dtype", ["f8", ">f4", "u1", "i4", "?"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_other_arrays_become_float32(write, dtype, pack):
    out = io.BytesIO()
    np.save(out, np.array([[[0, 1], [1, 0]]], dtype))
    data = read(write(pack(out.getvalue()), "x.npy"))
    assert data.features.dtype == np.dtype("f4")
    assert data.features.tolist() == [[0, 1, 1, 0]]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_files_are_images_and_labels(write, pack):
    images = np.arange(12, dtype=np.uint8).reshape(3, 2, 2) * 20
    file = write(pack(idx(images)), "images-idx3-ubyte")
    data = read(file, write(pack(idx(np.array([9, 0, 4], np.uint8))), "labels-idx1-ubyte"))
    assert data.features.tolist() == images.reshape(3, 4).tolist()
    assert (label_rows(data), data.n_labels) == ([[9], [0], [4]], 10)
    data = read(write(idx(np.array([[1, 2]], ">i2"), 0x0B), "x-idx2-short"))
    assert data.features.tolist() == [[1, 2]]


@pytest.mark.parametrize("kind", [csr_matrix, csc_matrix])
def test_scipy_matrices_are_features_and_indicators(tmp_path, kind):
    save_npz(tmp_path / "x.npz", kind(np.array([[0, 1.5], [2, 0]])))
    indicators = kind(np.array([[1, 0, 1], [0, 1, 0]]))
    indicators[1, 1] = 0  # a zero that is stored is no label
    save_npz(tmp_path / "y.npz", indicators)
    data = read(str(tmp_path / "x.npz"), str(tmp_path / "y.npz"))
    assert data.features.toarray().tolist() == [[0, 1.5], [2, 0]]
    assert data.features.dtype == np.float32
    assert data.is_sparse
    assert (label_rows(data), data.n_labels) == ([[0, 2], []], 3)
