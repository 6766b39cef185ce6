"""Vector files in .npz and .safetensors that are invalid are refused, in little memory."""

import json

import numpy as np
import pytest

from embedx.vectors import model
from tests.support.refusals import refused_data


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


ONES = np.ones((2, 3), np.float32)
TWO = np.array(["a", "b"])


@pytest.mark.parametrize(
    ("arrays", "quoted"),
    [
        ({"words": TWO}, "`vectors` is missing"),
        ({"vectors": ONES}, "('words')"),
        ({"words": np.arange(2), "vectors": ONES}, "expected str instance, int found"),
        ({"words": TWO[:1], "vectors": ONES}, ("float32 (2, 3)", "(1, dim)")),
        ({"words": TWO, "vectors": ONES.astype(np.int8)}, ("int8 (2, 3)", "`scale`")),
        (
            {"words": TWO, "vectors": ONES.astype(np.int8), "scale": np.ones(3)},
            ("`scale`", "float64 (3,)", "2 words"),
        ),
        ({"words": TWO, "vectors": ONES * np.nan}, "'a'"),
        ({"words": np.array(["a", "\ud800"]), "vectors": ONES}, "surrogates not allowed"),
        ({"words": TWO.astype(object), "vectors": ONES}, "Object arrays cannot be loaded"),
    ],
)
def test_an_invalid_npz_is_refused(tmp_path, arrays, quoted):
    with refused_data("a.npz", quoting=quoted):
        model.load(npz(tmp_path, **arrays))


def test_an_npz_that_claims_too_much_takes_no_memory(tmp_path, monkeypatch):
    path = npz(tmp_path, words=TWO, vectors=ONES)
    monkeypatch.setattr("embedx.vectors.formats.contract.available_memory", lambda: 20)
    with refused_data("a.npz", "top", quoting="0.6 kB"):
        model.load(path)


def tensors(header, data=b""):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ALONE = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
WORD = {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]}


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        (
            tensors({"words": {"dtype": "U8", "shape": [9], "data_offsets": [0, 2]}}, b"a\n"),
            "invalid shape",
        ),
        (b"\xff\0\0\0\0\0\0\0{", "invalid header length"),
        (tensors({}), "('words')"),
        (tensors({"words": ALONE}, b"\xff\n"), "can't decode byte 0xff in position 0"),
        (tensors({"words": ALONE}, b"a\n"), "`vectors` is missing"),
        (
            tensors(
                {
                    "words": WORD,
                    "vectors": {"dtype": "I32", "shape": [1, 1], "data_offsets": [0, 4]},
                },
                b"\0\0\x80?a\n",
            ),
            ("`vectors`", "int32 (1, 1)", "(1, dim)"),
        ),
    ],
)
def test_invalid_safetensors_are_refused(tmp_path, content, quoted):
    (tmp_path / "a.safetensors").write_bytes(content)
    with refused_data("a.safetensors", quoting=quoted):
        model.load(tmp_path / "a.safetensors")
