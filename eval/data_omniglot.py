"""Omniglot, 28 x 28: with grey values, from the drawings of its repository and from the file of
Burda et al. 2016, and in black and white, as another repository has reduced it.

A drawing is 105 x 105 pixels, a reduced one 28 x 28; ink is black. Its file NUMBER_DRAWER.png says
which of the 1,623 characters it is and who drew it.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from eval.data_repositories import Repository

OMNIGLOT = Repository(
    "https://github.com/brendenlake/omniglot",
    "057f034baf2ecb8530bc5710e5a23584d2a519cc",
    "python",
)
REDUCED = Repository(
    "https://github.com/doslim/Omniglot-CNN-Demo",
    "1522c9bafb2a136f32c77ded285274cccf0415e8",
    "omniglot_resized",
)
BURDA = Repository(
    "https://github.com/yburda/iwae",
    "78a6075484bd7dd6f47a4bb9880d2295bc7a5220",
    "datasets/OMNIGLOT",
)
ARCHIVES = ("images_background.zip", "images_evaluation.zip")
SIDE = 28
DIGITS = 3
# Augment and reduce has the sizes of this split; it does not tell who drew its test images.
FIRST_TEST_DRAWER = 17


class Drawing(NamedTuple):
    """A drawing: the number of its character, counted from 0, the number of its drawer, and how
    much of each of its pixels is ink.
    """

    character: int
    drawer: int
    ink: np.ndarray  # float (SIDE * SIDE,), from 0 to 1


# ---- drawings in files


def images_in(archives: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files of drawings in some archives, in the order of their names."""
    for content in archives:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".png"):
                    yield name, archive.read(name)


def drawing_of(path: str, content: bytes) -> Drawing:
    """The drawing in a file."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        ink = 1 - np.asarray(image.convert("1"), dtype=np.float64)
    number, _, drawer = PurePosixPath(path).stem.partition("_")
    return Drawing(int(number) - 1, int(drawer), reduced(ink, SIDE).ravel())


def character_of(path: str) -> str:
    """Alphabet and folder of the character that a file shows."""
    return "/".join(PurePosixPath(path).parts[-3:-1])


def reduced(image: np.ndarray, side: int) -> np.ndarray:
    """A square image of that side: each pixel is the mean over its area."""
    weights = area_weights(len(image), side)
    return weights @ image @ weights.T


def area_weights(n: int, n_reduced: int) -> np.ndarray:
    """float64 (n_reduced, n): the share that each of n pixels has in each of n_reduced ones."""
    edges = np.arange(n_reduced + 1) * n / n_reduced
    pixels = np.arange(n)
    begin = np.maximum(edges[:-1, None], pixels)
    end = np.minimum(edges[1:, None], pixels + 1)
    return np.maximum(end - begin, 0) * n_reduced / n


def is_to_test_on(drawing: Drawing) -> bool:
    return drawing.drawer >= FIRST_TEST_DRAWER


# ---- the file of Burda et al.


def burda_parts(content: bytes) -> tuple[dict[str, list[Drawing]], list[str]]:
    """Training and test drawings of chardata.mat, and the name of each character. Drawers are not
    known: they are 0.
    """
    from scipy.io import loadmat

    arrays = loadmat(io.BytesIO(content))
    keys = {
        part: list(zip(*_character_keys(arrays, prefix), strict=True))
        for part, prefix in (("train", ""), ("test", "test"))
    }
    known = sorted({key for part in keys.values() for key in part})
    numbers = {key: number for number, key in enumerate(known)}
    parts = {}
    for part, images in (("train", arrays["data"]), ("test", arrays["testdata"])):
        labelled = zip(keys[part], images.T, strict=True)
        parts[part] = [Drawing(numbers[key], 0, image) for key, image in labelled]
    return parts, [f"{alphabet}/{character}" for alphabet, character in known]


def _character_keys(arrays: dict[str, np.ndarray], prefix: str) -> tuple[list[int], list[int]]:
    """The number of the alphabet of each image, and that of the character in it."""
    alphabets = arrays[f"{prefix}target"].argmax(axis=0)
    return alphabets.tolist(), arrays[f"{prefix}targetchar"].ravel().astype(int).tolist()


# ---- XC files


def xc_lines(rows: list[Drawing], n_characters: int) -> Iterator[str]:
    """The lines of an XC file: of each drawing its character, and the pixels with ink."""
    yield f"{len(rows)} {SIDE * SIDE} {n_characters}\n"
    for drawing in rows:
        ink = drawing.ink.round(DIGITS)
        cells = " ".join(f"{pixel}:{ink[pixel]:g}" for pixel in np.flatnonzero(ink).tolist())
        yield f"{drawing.character} {cells}\n"
