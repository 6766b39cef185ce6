"""Work that Ctrl-C must not end."""

import os
import signal

import pytest

from embedx.runtime.interrupts import to_the_end


def test_protected_work_finishes_however_often_ctrl_c_is_pressed():
    def work():
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        return "saved"

    assert to_the_end(work) == "saved"


def test_protected_work_raises_its_errors_and_interrupts_on_request():
    with pytest.raises(ZeroDivisionError):
        to_the_end(lambda: 1 / 0)
    with pytest.raises(KeyboardInterrupt):
        to_the_end(lambda: os.kill(os.getpid(), signal.SIGINT), then_raise=True)
