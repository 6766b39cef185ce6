"""What the system around a command refuses is one line and exit code 2."""

import os
import subprocess
import sys
import zipfile

import pytest

import embedx
from embedx.cli import app
from embedx.runtime import cores
from embedx.runtime.shell import command_line
from tests.support.commands import run_command

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no folder in use can be deleted")


def test_a_deleted_working_folder_is_an_error_of_one_line(tmp_path):
    code = "import os, embedx.cli.app as app; os.rmdir(os.getcwd()); app.main()"
    (tmp_path / "gone").mkdir()
    completed = subprocess.run(
        [sys.executable, "-c", code, "train", "text.txt"],
        cwd=tmp_path / "gone",
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    (line,) = completed.stderr.splitlines()
    assert line.startswith("embedx: the working folder: ")


@pytest.mark.parametrize(
    ("message", "raised"), [(app.NO_NEW_THREAD, SystemExit), ("a bug", RuntimeError)]
)
def test_a_system_without_free_threads_is_reported_in_one_line(
    monkeypatch, capsys, message, raised
):
    def application(arguments):
        raise RuntimeError(message)

    for name in ("open_streams", "close_error_stream"):
        monkeypatch.setattr(app, name, lambda: None)
    monkeypatch.setattr(app.signal, "signal", lambda *handler: None)
    monkeypatch.setattr(app, "application", application)
    with pytest.raises(raised) as ended:
        app.main()
    if raised is SystemExit:
        assert ended.value.code == 2
        assert "no more threads" in capsys.readouterr().err


@pytest.mark.parametrize(("starts_threads", "expected"), [(True, None), (False, "1")])
def test_libraries_start_no_threads_where_the_system_starts_none(
    monkeypatch, starts_threads, expected
):
    """OpenBLAS would interrupt the process, which is reported as Ctrl-C."""

    def start(thread):
        if not starts_threads:
            raise RuntimeError(app.NO_NEW_THREAD)

    monkeypatch.delenv(app.THREADS_OF_LIBRARIES, raising=False)
    monkeypatch.setattr(cores.threading.Thread, "start", start)
    monkeypatch.setattr(cores.threading.Thread, "join", lambda thread: None)
    monkeypatch.setattr(app.os, "cpu_count", lambda: 4)
    app._spare_threads()
    assert os.environ.get(app.THREADS_OF_LIBRARIES) == expected


def test_the_help_is_the_same_without_docstrings():
    def help_of(*python):
        command = [*python, "-m", "embedx", "train", "--help"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    plain = help_of(sys.executable)
    assert plain == help_of(sys.executable, "-OO")
    assert "files, globs" in plain


def test_from_a_zip_the_package_says_that_it_needs_its_files(tmp_path):
    archive = tmp_path / "embedx.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(embedx.__file__, "embedx/__init__.py")
    completed = subprocess.run(
        [sys.executable, "-c", "import embedx"],
        env=os.environ | {"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 1
    assert "embedx needs its source files" in completed.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "code"),
    [("train", 2), ("corpus check", 0), ("compare --objectives ns,hs --heldout 10%", 2)],
)
def test_long_corpus_names_are_refused_only_if_the_output_name_is_too_long(command, code, tmp_path):
    corpus = f"{'y' * 248}.txt"
    (tmp_path / corpus).write_text("a b c d e f g\n" * 300)
    ended = run_command(tmp_path, *command.split(), corpus, check=False)
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert ("name too long" in ended.stderr) == (code == 2)


@pytest.mark.parametrize(
    "name", [b"na\xe9", b"a\nb'c\\d", b"\xff12", "naïve ~$x".encode(), b"plain"]
)
def test_a_command_that_is_shown_can_be_pasted(name, tmp_path):
    line = command_line(["printf", "%s", os.fsdecode(name)])
    assert line.isascii() or "naïve" in line
    assert "\n" not in line
    assert not any("\udc80" <= character <= "\udcff" for character in line)
    output = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert output == name


def test_the_suggested_resume_command_quotes_any_folder_name():
    assert command_line(["embedx", "resume", "na\udce9"]) == "embedx resume $'na\\351'"
