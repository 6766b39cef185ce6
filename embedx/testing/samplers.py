"""The contract of samplers."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.samplers.contract import Paths, Sampler, new_sample_workspace

COUNTS = np.array([400, 0, 90, 1, 30, 9, 90, 250], dtype=np.int64)
STREAM = 1234567
N_SETS = 10_000
# chi-square with 7 degrees of freedom exceeds it with probability 10^-6
MAX_CHI_SQUARE = 40


def prepared(sampler: type[Sampler], *, replacement: bool = True) -> Sampler:
    """A sampler with its default settings, for classes that occur COUNTS times."""
    settings = sampler.fill_defaults(sampler.Settings(), corrected=False)
    new = sampler(settings, replacement=replacement)
    paths = Paths(
        np.array([0, 2, 3]), np.array([0, 1, 0], np.int32), np.array([1, 0, 0], np.float32)
    )
    new.prepare(COUNTS, paths=paths)
    return new


def draws(sampler: Any, n: int, streams: Iterable[int], first: int = 0) -> Iterator[ndarray]:
    """Yield the rows drawn by each of the streams, in turn, in the same buffers."""
    data = sampler.data(n)
    workspace = new_sample_workspace(n, 0)
    for stream in streams:
        n_drawn = sampler.sample(data, -1, np.uint64(stream), np.uint64(first), n, 0, workspace)
        assert (workspace.seen == -1).all(), "workspace.seen is not left as it was"
        yield workspace.rows[:n_drawn].copy()


def log_expected(sampler: Any, n: int) -> ndarray:
    """The log of the expected counts of all classes among n draws."""
    rows = np.arange(len(COUNTS), dtype=np.int32)
    out = np.full(len(rows), np.nan, dtype=np.float32)
    sampler.log_expected_count(sampler.data(n), -1, n, 0, rows, len(rows), out)
    return out


def is_fixed(sampler: type[Sampler]) -> bool:
    """Whether it draws from a distribution that does not depend on the input."""
    return sampler.candidates == "drawn" and not sampler.conditional


def check_declarations(sampler: type[Sampler], replacement: bool) -> None:
    """The declarations are consistent, and q is a distribution."""
    assert sampler.meaning, "no meaning"
    kinds = ("drawn", "all", "path", "retrieved")
    assert sampler.candidates in kinds, f"candidates are none of {', '.join(kinds)}"
    noise = prepared(sampler, replacement=replacement).noise
    assert noise.shape == COUNTS.shape, "noise has another shape than the counts"
    np.testing.assert_allclose(noise.sum(), 1, err_msg="the noise is no distribution")
    log_noise = prepared(sampler, replacement=replacement).log_noise(3)
    assert log_noise.shape == COUNTS.shape, "log_noise has another shape than the counts"
    assert log_noise.dtype == np.float32, "log_noise is not float32"


def check_certain_rows(sampler: type[Sampler], replacement: bool) -> None:
    """Rows that are not drawn are present with certainty."""
    if sampler.candidates != "drawn":
        certain = log_expected(prepared(sampler, replacement=replacement), 4)
        np.testing.assert_array_equal(certain, 0)


def check_distribution(sampler: type[Sampler], replacement: bool) -> None:
    """Draws follow the noise distribution, by Pearson's chi-square."""
    if not is_fixed(sampler):
        return
    tested = prepared(sampler, replacement=replacement)
    n = 4 * N_SETS
    rows = [row for (row,) in draws(tested, 1, range(n))]
    expected = n * tested.noise
    chi_square = ((np.bincount(rows, minlength=len(COUNTS)) - expected) ** 2 / expected).sum()
    assert chi_square < MAX_CHI_SQUARE, f"draws do not follow the noise (chi-square {chi_square})"


def check_expected_counts(sampler: type[Sampler], replacement: bool) -> None:
    """The mean counts of draws are the expected counts."""
    if not is_fixed(sampler):
        return
    tested = prepared(sampler, replacement=replacement)
    n = 4
    totals = np.zeros(len(COUNTS))
    for rows in draws(tested, n, range(N_SETS)):
        counts = np.bincount(rows, minlength=len(COUNTS))
        totals += counts if tested.replacement else counts > 0
    expected = np.exp(log_expected(tested, n).astype(float))
    np.testing.assert_allclose(totals / N_SETS, expected, atol=5 * np.sqrt(n / N_SETS) / 2)
    if tested.replacement:
        np.testing.assert_allclose(expected.sum(), n, rtol=1e-5)
    else:
        assert expected.max() <= 1, "expects a row more than once, without replacement"


def check_streams(sampler: type[Sampler], replacement: bool) -> None:
    """Draws depend only on their stream and their place in it; another stream gives other draws."""
    if not is_fixed(sampler):
        return
    tested = prepared(sampler)
    (nine,) = draws(tested, 9, [STREAM])
    (later,) = draws(tested, 5, [STREAM], first=4)
    (others,) = draws(tested, 9, [STREAM + 1])
    np.testing.assert_array_equal(nine[4:], later, "draw d is not number first + d of the stream")
    assert not np.array_equal(nine, others), "another stream draws the same rows"


def check_log_noise(sampler: type[Sampler], replacement: bool) -> None:
    """`log_noise` is the log of the expected counts, up to a constant."""
    if is_fixed(sampler):
        tested = prepared(sampler, replacement=replacement)
        spread = np.ptp(tested.log_noise(3) - log_expected(tested, 3))
        assert spread < 1e-5, f"log_noise differs from the expected counts by up to {spread:g}"


CHECKS = (
    check_declarations,
    check_certain_rows,
    check_distribution,
    check_expected_counts,
    check_streams,
    check_log_noise,
)
