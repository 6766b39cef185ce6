"""Output files: existing ones need --overwrite, inputs are kept, failures leave no part."""

import errno
import io
import os

import pytest

from embedx import SkipGram, SoftmaxClassifier
from embedx.cli import files
from embedx.cli.app import COMMANDS
from embedx.cli.requests import parameters_of
from embedx.errors import DataError, EmbedxError, Setting
from embedx.runtime import atomic
from embedx.storage import outputs
from tests.support.commands import invoke
from tests.support.refusals import refused, refused_data

EVENTS = "user,item,time\nu,a,1\nu,b,2\nv,a,1\nv,c,5\n"
WORD2VEC = "word2vec -train text.txt -size 4 -min-count 1 -sample 0 -threads 1"
WRITES = {  # commands that write a file, by the name of its option
    ("corpus sessions", "output"): "corpus sessions events.csv --output OUT",
    ("predict", "output"): "predict labels rows.txt --output OUT",
    ("vectors", "output"): "vectors words --output OUT",
    ("eval", "per_label"): "eval labels --test rows.txt --per-label OUT",
    ("report", "output"): "report labels --test rows.txt --output OUT",
    ("export", "out"): "export words OUT --format word2vec",
    ("word2vec", "output"): f"{WORD2VEC} -output OUT",
    ("word2vec", "save_vocab"): f"{WORD2VEC} -output new.bin -save-vocab OUT",
}
READS = {
    "corpus sessions": ["events.csv"],
    "predict": ["rows.txt", "labels/model.json"],
    "vectors": ["words/input.npy"],
    "eval": ["rows.txt", "labels/model.json"],
    "report": ["rows.txt", "labels/model.json"],
    "export": ["words/vocabulary.tsv"],
    "word2vec": ["text.txt"],
}
OF_FOLDERS = {
    "train",
    "classify",
    "compare",
    "reproduce",
    "supervised",
    "skipgram",
    "cbow",
    "corpus check",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with word vectors, a classifier, and what they are trained on."""
    folder = tmp_path_factory.mktemp("models")
    text = [["a", "b", "c", "a"]] * 30
    SkipGram(dim=4, min_count=1, epochs=1, sample=0, threads=1).fit(text).save(folder / "words")
    rows = [[0.0, 1.0], [1.0, 0.0]] * 10
    SoftmaxClassifier("softmax", epochs=1, n_jobs=1).fit(rows, ["x", "y"] * 10).save(
        folder / "labels"
    )
    return folder


@pytest.fixture
def work(workdir, models, monkeypatch):
    """An empty working folder with these models, and files for each command to read."""
    for name in ("words", "labels"):
        (workdir / name).mkdir()
        for file in (models / name).iterdir():
            (workdir / name / file.name).write_bytes(file.read_bytes())
    (workdir / "events.csv").write_text(EVENTS)
    (workdir / "rows.txt").write_text("2 2 2\n0 1:1\n1 0:1\n")
    (workdir / "text.txt").write_text("a b c a b c\n" * 30)
    monkeypatch.setattr("sys.stdin", io.StringIO("a b\n"))
    return workdir


def run(line):
    words = line.split()
    invoke(*words)


def content(folder):
    """All files below a folder, without caches and users' folders of the tests."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in ("config", "data")
    }


def test_every_output_of_every_command_is_tested():
    outputs = set()
    for commands in COMMANDS.values():
        for name, command in commands.items():
            parameters = {
                parameter.name: parameter.annotation for parameter in parameters_of(command)
            }
            outputs |= {(name, output) for output in files.OUTPUTS if output in parameters}
            paths = {name for name, kind in parameters.items() if "Path" in str(kind)}
            known = {*files.INPUTS, *files.OUTPUTS, "cache_dir", "to"}
            assert name == "resume" or paths <= known
    written = {
        parameter
        for parameter in outputs
        if parameter[1] != "log_json" and parameter[0] not in OF_FOLDERS
    }
    assert written - {("resume", "output")} == set(WRITES)


@pytest.mark.parametrize("command", WRITES, ids="-".join)
def test_an_existing_file_is_kept_unless_overwrite_is_given(command, work):
    (work / "dear").write_text("years of work")
    before = content(work)
    with pytest.raises(DataError) as raised:
        run(WRITES[command].replace("OUT", "dear"))
    assert str(raised.value.file) == "dear"
    assert Setting("overwrite", True) in raised.value.remedy
    assert content(work) == before
    (work / "dear").chmod(0o640)
    run(WRITES[command].replace("OUT", "dear") + " --overwrite")
    assert (work / "dear").read_bytes() not in (b"", b"years of work")
    if command[1] not in ("out", "save_vocab") and command[0] != "word2vec":
        assert (work / "dear").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("link", [None, os.link, os.symlink])
@pytest.mark.parametrize("command", WRITES, ids="-".join)
def test_an_input_is_never_overwritten(command, link, work):
    for name in READS[command[0]]:
        input_name = name.split("/")[0]
        out = name
        if link is not None:
            out = f"link-to-{name.replace('/', '-')}"
            link(work / name, work / out)
        before = content(work)
        with refused_data(out, quoting=input_name):
            run(WRITES[command].replace("OUT", out) + " --overwrite")
        assert content(work) == before


@pytest.mark.parametrize("command", WRITES, ids="-".join)
def test_on_a_full_disk_nothing_is_left_and_the_old_file_stays(command, work, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "sync", full)
    monkeypatch.setattr(atomic, "sync_files", full)
    (work / "dear").write_text("years of work")
    before = content(work)
    for out in ("dear", "new"):
        with refused(kind=EmbedxError, quoting="No space left on device"):
            run(WRITES[command].replace("OUT", out) + " --overwrite")
    assert content(work) == before


@pytest.mark.parametrize("command", WRITES, ids="-".join)
def test_outputs_that_cannot_be_written_are_refused_before_training(command, work, monkeypatch):
    monkeypatch.setattr("embedx.kernels.compiled.kernel", None)
    before = content(work)
    os.mkfifo(work / "pipe")
    os.symlink("loop", work / "loop")
    for out in ("words", "pipe", "loop", "nowhere/out", "v" * 250, "/"):
        with pytest.raises(DataError):
            run(WRITES[command].replace("OUT", out) + " --overwrite")
    assert content(work) == before


def test_an_invalid_table_does_not_empty_the_output(work):
    (work / "events.csv").write_text("user,item\nu,a\n")
    (work / "dear").write_text("years of work")
    with pytest.raises(EmbedxError):
        run("corpus sessions events.csv --output dear --overwrite")
    assert (work / "dear").read_text() == "years of work"


@pytest.mark.parametrize(
    "line",
    [
        "train text.txt --log-json text.txt",
        "train . --log-json text.txt",
        "train t*.txt --log-json text.txt",
        "classify rows.txt --log-json rows.txt",
        "classify rows.txt --test text.txt --log-json text.txt",
        "train text.txt --vocab rows.txt --log-json rows.txt",
        "train text.txt --output out --log-json out",
        "word2vec -train text.txt -output out -save-vocab out",
    ],
)
def test_two_outputs_and_inputs_are_different_files(line, work):
    before = content(work)
    with pytest.raises(DataError):
        run(line)
    assert content(work) == before


def test_standard_input_is_an_input(work, monkeypatch):
    (work / "lines").write_text("a\n")
    with open(work / "lines") as lines:
        monkeypatch.setattr(os, "fstat", lambda number: os.stat(lines.name))
        with refused_data("lines"):
            run("vectors words --output lines --overwrite")
    assert (work / "lines").read_text() == "a\n"


def test_a_page_in_the_model_folder_may_be_overwritten(work):
    for _ in range(2):
        run("report labels --output labels/page.html --overwrite")
    assert (work / "labels" / "page.html").exists()


def test_an_export_does_not_overwrite_a_folder_with_other_files(work):
    run("export words out.embedx")
    (work / "out.embedx" / "notes").write_text("dear")
    with refused_data("out.embedx", "format"):
        run("export words out.embedx --overwrite")
    assert (work / "out.embedx" / "notes").read_text() == "dear"


def test_secondary_files_of_an_export_are_not_overwritten(work):
    pytest.importorskip("gensim")
    (work / "v.kv.vectors.npy").write_text("dear")
    with pytest.raises(DataError) as raised:
        run("export words v.kv --format gensim")
    assert raised.value.file.name == "v.kv.vectors.npy"
    assert (work / "v.kv.vectors.npy").read_text() == "dear"


@pytest.mark.parametrize(
    ("error", "is_ignored"),
    [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False)],
)
def test_a_file_system_that_synchronises_no_folders_takes_files(
    error, is_ignored, tmp_path, monkeypatch
):
    def sync(number):
        if os.path.isdir(f"/proc/self/fd/{number}"):
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", sync)
    if is_ignored:
        atomic.write_text(tmp_path / "file", "text")
        assert (tmp_path / "file").read_text() == "text"
    else:
        with pytest.raises(DataError):
            atomic.write_text(tmp_path / "file", "text")


def test_undecodable_file_names_are_written_as_escapes(tmp_path):
    atomic.write_text(tmp_path / "file", "a\udcff é")
    assert (tmp_path / "file").read_text("utf-8") == r"a\udcff é"


def test_the_inputs_of_a_folder_are_its_files_but_not_its_models(work):
    with pytest.raises(DataError):
        outputs.check_not_read(work / "rows.txt", [work])
    outputs.check_not_read(work / "words", [work])
    outputs.check_not_read(work / "new", [work])


@pytest.mark.parametrize("can_sync_fully", [True, False])
def test_on_macos_files_are_synchronised_with_fullfsync(can_sync_fully, tmp_path, monkeypatch):
    full_sync = 51  # F_FULLFSYNC of macOS
    calls = []

    def control(descriptor, command):
        calls.append(command)
        if not can_sync_fully:
            raise OSError(errno.ENOTSUP, "as on a network share")

    monkeypatch.setattr(atomic, "FULL_SYNC", full_sync)
    monkeypatch.setattr(atomic.fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    with open(tmp_path / "file", "wb") as file:
        atomic.sync(file)
    assert calls == ([full_sync] if can_sync_fully else [full_sync, "fsync"])
