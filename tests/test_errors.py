"""What is said of a mistake is one line that a terminal shows, whatever the text is that it quotes."""

import pytest

from embedx.errors import MAX_CHARACTERS, EmbedxError
from embedx.labeled.read import read
from embedx.vectors.model import UnknownWordError


@pytest.mark.parametrize("kind", [EmbedxError, UnknownWordError])
def test_characters_that_break_lines_or_command_a_terminal_are_written_as_escapes(kind):
    assert str(kind("a\n\r\t\x1b[31m\u2028\x85\udcff b é 日")) == r"a\n\r\t\x1b[31m\u2028\x85\udcff b é 日"


def test_a_long_message_keeps_its_beginning_and_its_end():
    message = str(EmbedxError("file.txt:1: " + "x" * 10**6 + " is no number; mend it"))
    assert len(message) < MAX_CHARACTERS + 10
    assert message.startswith("file.txt:1: xxx")
    assert message.endswith("xxx is no number; mend it")
    assert str(EmbedxError("x" * MAX_CHARACTERS)) == "x" * MAX_CHARACTERS


def test_a_word_of_the_users_is_shown_so(tmp_path):
    (tmp_path / "train.txt").write_text("1 1 1\n0 a\u2028b:1\n0 " + "word" * 9999 + ":1\n")
    with pytest.raises(EmbedxError, match=r'train.txt:2: feature "a\\u2028b:1" is not ID:VALUE'):
        read(str(tmp_path / "train.txt"))


def test_less_memory_than_is_free_is_an_error_too(tmp_path, monkeypatch):
    """As under `ulimit -v`."""

    def fail(*_):
        raise MemoryError

    (tmp_path / "train.txt").write_text("1 1 1\n0 0:1\n")
    monkeypatch.setattr("embedx.labeled.read.read_xc", fail)
    with pytest.raises(EmbedxError, match=r"train.txt: takes more memory than may be had; give fewer rows, or more memory"):
        read(str(tmp_path / "train.txt"))
