"""Standard streams that are closed, full, or know few letters."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams of another kind")
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")


@pytest.fixture
def vectors(tmp_path):
    (tmp_path / "v.vec").write_text("3 2\nnaïve 1 2\nb 2 1\nc 1 1\n", encoding="utf-8")
    return tmp_path / "v.vec"


def embedx_run(shell, *arguments, **variables):
    """`python -m embedx ARGUMENTS` within a line of the shell, where it is called "$@"."""
    command = ["sh", "-c", shell, "sh", sys.executable, "-m", "embedx", *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)


@FULL
@pytest.mark.parametrize(
    "options", [["nn", "{0}", "b", "--json"], ["export", "{0}", "{1}"], ["--help"]]
)
def test_results_that_cannot_be_written_are_an_error_of_one_line(vectors, tmp_path, options):
    completed = embedx_run(
        '"$@" >/dev/full', *(option.format(vectors, tmp_path / "out.vec") for option in options)
    )
    assert completed.returncode == 2
    (line,) = completed.stderr.splitlines()
    assert line.startswith(b"embedx: standard output: No space left on device, ")
    assert (tmp_path / "out.vec").exists() == (options[0] == "export")


def test_a_closed_output_pipe_ends_the_command_quietly(vectors):
    """The results of 8,000 words are more than a pipe holds."""
    line = 'yes b | head -n 8000 | ("$@"; echo "code $?" >&2) | true'
    completed = embedx_run(line, "nn", vectors, "-")
    assert completed.stderr == b"code 141\n"


@FULL
@pytest.mark.parametrize(
    ("stderr", "words", "code", "results"),
    [
        ("2>&-", ["b", "--top-k", 1], 0, b"b\tc\t0.9487\n"),
        ("2>&-", ["unknown"], 2, b""),
        ("2>/dev/full", [], 2, b""),
    ],
)
def test_without_standard_error_results_and_codes_are_the_same(
    vectors, stderr, words, code, results
):
    completed = embedx_run(f'"$@" {stderr}', "nn", vectors, *words)
    assert (completed.returncode, completed.stdout, completed.stderr) == (code, results, b"")


def test_no_file_takes_the_place_of_a_stream_that_is_closed(vectors, tmp_path):
    out = tmp_path / "out.vec"
    for streams, n_lines in (">&-", 1), ("<&- >&- 2>&-", 0):
        completed = embedx_run(f'"$@" {streams}', "export", vectors, out, "--overwrite")
        assert (completed.returncode, completed.stdout) == (2, b"")
        lines = completed.stderr.splitlines()
        assert len(lines) == n_lines
        assert all(line.startswith(b"embedx: standard output: ") for line in lines)
        assert out.read_text("utf-8") == "3 2\nnaïve 1.0 2.0\nb 2.0 1.0\nc 1.0 1.0\n"


def test_letters_that_standard_error_does_not_know_are_written_as_numbers(vectors):
    completed = embedx_run(
        '"$@"', "nn", vectors, "na\u00efv", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C"
    )
    assert completed.returncode == 2
    assert completed.stderr.startswith(b"embedx: na\\")
    assert b"v: " in completed.stderr
    assert b" 3 words" in completed.stderr
    assert completed.stderr.isascii()


EASTERN = ("\u6771", "na\u00efve")


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-16"])
def test_input_and_output_are_utf_8_in_every_locale(tmp_path, encoding):
    file = tmp_path / "v.vec"
    file.write_text("2 2\n" + "".join(f"{word} 1 {k}\n" for k, word in enumerate(EASTERN)), "utf-8")
    list_file = tmp_path / "words.txt"
    list_file.write_text("\n".join(EASTERN) + "\n", "utf-8")
    variables = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    completed = embedx_run(f'"$@" <{list_file}', "vectors", file, **variables)
    assert completed.stdout.decode().split("\n")[:2] == [f"{EASTERN[0]} 1 0", f"{EASTERN[1]} 1 1"]
    completed = embedx_run(f'"$@" <{list_file}', "nn", file, "-", **variables)
    assert completed.stdout.decode().split()[:2] == [*EASTERN]
    assert completed.returncode == 0
