"""Kernels of a numba that embedx was not tested with are compared with plain Python."""

import numba
import pytest

from embedx.engine import loading, self_test
from embedx.errors import EmbedxError
from tests.support.needs import needs_compiler
from tests.support.notes import Notes
from tests.support.refusals import refused

pytestmark = needs_compiler


def test_compiled_blocks_are_those_of_plain_python():
    self_test.check()


@pytest.mark.parametrize("place", [0, -3], ids=["a vector", "the loss"])
def test_a_miscompiled_kernel_is_named_with_a_numba_that_works(monkeypatch, place):
    """One number of all that a block changes is wrong by a hundredth."""
    wrong = self_test.trained()
    wrong[place] *= 1.01
    monkeypatch.setattr(self_test, "trained", lambda: wrong)
    with refused(kind=EmbedxError, quoting='pip install "numba==0.'):
        self_test.check()


def test_a_newer_numba_is_checked_once_for_each_folder_of_kernels(tmp_path, monkeypatch):
    n_checks = 0

    def check():
        nonlocal n_checks
        n_checks += 1

    monkeypatch.setattr(self_test, "check", check)
    monkeypatch.setattr(loading, "KERNEL_FOLDER", str(tmp_path))
    for expected in (1, 1):
        monkeypatch.setattr(loading, "_is_numba_checked", False)  # as in a new process
        notes = Notes()
        loading._check_numba(notes)
        assert n_checks == expected
    monkeypatch.setattr(loading, "KERNEL_FOLDER", "")
    loading._check_numba(notes)
    loading._check_numba(notes)
    assert n_checks == 2
    (note,) = notes.notes
    assert f"numba {numba.__version__} " in note


def test_a_numba_with_which_embedx_was_tested_is_not_checked(monkeypatch):
    monkeypatch.setattr(self_test, "check", lambda: pytest.fail("it is"))
    assert numba.version_info.short <= loading.TESTED
    objective, sampler = self_test._setup()[2:]
    arguments = self_test._setup()[1]
    loading.load_kernel(
        self_test.skipgram.train_chunk, objective.coefficients, sampler, arguments, Notes()
    )
