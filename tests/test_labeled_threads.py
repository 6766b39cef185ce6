"""How many threads parse labelled files: as many as the command or the call asks for."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import embedx
from embedx.labeled.read import read, read_test, read_to_predict, read_training
from tests.support.commands import run_command

ROWS = "".join(f"{row % 2} {row % 5 + 1}:1\n" for row in range(40))


@pytest.fixture
def parsers(monkeypatch):
    """The numbers of threads of all pools that parse; files are read in many small blocks."""
    numbers = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, threads, name):
            numbers.append(threads)
            super().__init__(threads, name)

    monkeypatch.setattr("embedx.labeled.sparse.ThreadPoolExecutor", Pool)
    monkeypatch.setattr("embedx.labeled.sparse.usable_cores", lambda: 7)
    for module in ("decompression", "read_ahead"):
        monkeypatch.setattr(f"embedx.text.{module}.BLOCK_BYTES", 40)
    return numbers


def test_each_reader_parses_with_the_threads_it_is_given(write, parsers):
    file = write(ROWS)
    schema = read(file, threads=2).schema
    read_training(file, threads=3)
    read_test(file, schema=schema, threads=4)
    read_to_predict(file, schema, threads=5)
    assert parsers == [2, 3, 4, 5]


def test_by_default_each_usable_core_parses(write, parsers):
    read(write(ROWS))
    assert parsers == [7]


def test_classify_parses_training_test_and_validation_rows_with_its_threads(
    write, workdir, parsers
):
    for name in ("train.txt", "test.txt", "valid.txt"):
        write(ROWS, name)
    data = ["train.txt", "--test", "test.txt", "--validation", "valid.txt"]
    run_command(workdir, "classify", *data, "--epochs", 1, "--threads", 2, "-o", "model")
    assert parsers == [2, 2, 2]

    parsers.clear()
    run_command(workdir, "predict", "model", "test.txt", "--threads", 3)
    assert parsers == [3]

    parsers.clear()
    embedx.classify("train.txt", validation="valid.txt", epochs=1, threads=2)
    assert parsers == [2, 2]
