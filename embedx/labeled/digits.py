"""Data sets that need no file: ten digits, drawn in ever different hands from one small picture of
each.
"""

import numpy as np

from embedx.labeled.data import DataSchema, Labeled, Labels

# The name of the data.
GENERATED = "digits"
# Width and height of a picture, in pixels.
SIDE = 16
# The digits from 0 to 9.
GLYPHS = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... ....# ...#. ....# #...# .#... #...# ....#
.###. .###. ##### ####. ...#. ####. .###. .#... .###. .###.
"""
# How hands differ, in pixels unless a name says otherwise; chosen so that a linear classifier gets
# about nineteen in twenty right, and a better one can do more.
SHIFT_DEVIATION = 0.6
SLANT_PER_PIXEL_OF_HEIGHT = 0.2
LOG_SIZE_DEVIATION = 0.1
DOT_DEVIATION = 0.35
MIN_AND_MAX_THICKNESS = (0.75, 1.25)
GREY_DEVIATION = 0.15
# Empty pixels around a digit of mean size.
MARGIN = 3.0


def digits(n_train: int = 4000, n_test: int = 1000, seed: int = 0) -> tuple[Labeled, Labeled]:
    """Training and test data: grey pictures of digits, 16 by 16 pixels from 0 (paper) to 1 (ink).
    Digits are as equally frequent as can be.
    """
    rng = np.random.default_rng(seed)
    return _drawn(rng, n_train), _drawn(rng, n_test)


def _drawn(rng: np.random.Generator, n: int) -> Labeled:
    labels = rng.permutation(np.arange(n) % 10)
    glyph_dots, glyph_is_ink = _dots()
    # (n, most dots of a glyph, 2), in pixels from the middle
    dots = glyph_dots[labels]
    is_ink = glyph_is_ink[labels]
    sizes = np.exp(rng.normal(0, LOG_SIZE_DEVIATION, (n, 1, 2)))
    dots = dots * sizes + rng.normal(0, DOT_DEVIATION, dots.shape)
    dots[:, :, 0] -= rng.normal(0, SLANT_PER_PIXEL_OF_HEIGHT, (n, 1)) * dots[:, :, 1]
    dots += rng.normal(0, SHIFT_DEVIATION, (n, 1, 2)) + (SIDE - 1) / 2
    # A dot's ink falls off as a Gaussian does, separately in x and y.
    thickness = rng.uniform(*MIN_AND_MAX_THICKNESS, (n, 1, 1, 1))
    # (n, dots, 2, SIDE)
    ink = np.exp(-0.5 * ((np.arange(SIDE) - dots[..., None]) / thickness) ** 2).astype(np.float32)
    across = ink[:, :, 0]
    down = ink[:, :, 1] * is_ink[..., None].astype(np.float32)
    grey = np.tanh(down.transpose(0, 2, 1) @ across).reshape(n, SIDE * SIDE)
    grey += rng.normal(0, GREY_DEVIATION, grey.shape).astype(np.float32)
    schema = DataSchema(grey.shape[1], 10, [str(digit) for digit in range(10)])
    return Labeled(grey.clip(0, 1), Labels.single(labels), 10, schema)


def _dots() -> tuple[np.ndarray, np.ndarray]:
    """The places (x, y) of the ink of each glyph, in pixels from its middle, and which of them are
    filled.
    """
    lines = GLYPHS.strip().split("\n")
    characters = np.array([[[*bits] for bits in line.split()] for line in lines])
    bitmaps = characters == "#"
    n_rows, _, n_columns = bitmaps.shape
    step = (SIDE - 1 - 2 * MARGIN) / (n_rows - 1)
    places = [np.argwhere(glyph)[:, ::-1] for glyph in bitmaps.transpose(1, 0, 2)]
    dots = np.zeros((len(places), max(map(len, places)), 2))
    is_ink = np.zeros(dots.shape[:2], bool)
    for digit, place in enumerate(places):
        dots[digit, : len(place)] = step * (place - [(n_columns - 1) / 2, (n_rows - 1) / 2])
        is_ink[digit, : len(place)] = True
    return dots, is_ink
