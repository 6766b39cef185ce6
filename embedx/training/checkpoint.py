"""Checkpoints: the state of a run on disk, from which the same command resumes after whatever ended
it.

    OUTPUT.checkpoint/
        run.json             the command and its arguments
        state-00000001.npz   the run's state (`embedx.training.state`): its arrays, and "tree", JSON
                             of the values that they are part of

The last two states are kept, so that a damaged one costs only an interval; the folder is deleted
when the model is saved. A state is written from a copy in memory while training continues; if the
copy does not fit, training waits.
"""

import contextlib
import json
import math
import os
import re
import stat
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.errors import DataError, DivergedError, Setting, joined
from embedx.runtime import atomic, locks, shell
from embedx.runtime.disk import amount, check_disk
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MAX_COPY_SHARE, available_memory, n_bytes
from embedx.runtime.progress import Progress
from embedx.settings import Options, Record
from embedx.storage import folder as folders
from embedx.training.state import TrainState

SUFFIX = ".checkpoint"
RUN = "run.json"
PARTIAL_RUN = "run.partial"
OURS = re.compile(r"state-\d{8}\.(npz|partial)|run\.(json|partial)")
KEPT_STATES = 2
DAMAGED = (OSError, ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile)
START_AGAIN = ("start again with ", Setting("overwrite", True))
# The key of an array's number in JSON.
ARRAY = "__array__"


@dataclass(frozen=True)
class Command:
    """A command: enough to run it again.

    arguments  as JSON types; "typed" has the given settings
    every      seconds between two checkpoints
    resumes    whether to resume from a checkpoint, if there is one
    free       names of arguments and settings that do not change the result
    packages   facts that name the other packages it needs (`embedx.objectives.packages`)
    """

    command: str
    arguments: Options
    every: float
    resumes: bool
    free: frozenset[str] = frozenset()
    packages: Record = field(default_factory=dict)


class Requested(NamedTuple):
    """A command that was started, from its checkpoints."""

    command: str
    arguments: Record
    directory: str
    packages: Record


def folder_of(output: Path) -> Path:
    """The folder of the checkpoints of a run that writes its model to `output`."""
    output = atomic.followed(output)
    if not output.name:
        raise DataError(output, None, "the root of all folders", "name a folder within it")
    return output.with_name(output.name + SUFFIX)


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder has the files of a checkpoint, and no others."""
    names = [file.name for file in folder.iterdir()]
    return bool(names) and all(OURS.fullmatch(name) for name in names)


def check_not_in_use(output: Path) -> None:
    """Raise `DataError` if another run is writing `output`."""
    if locks.is_locked(folder_of(output)):
        raise _in_use(output)


@contextlib.contextmanager
def reserved(output: Path) -> "Iterator[locks.Lock | None]":
    """A lock on the output of a run for its duration. Raises `DataError` if another run has it.

    Locks the folder of checkpoints, and deletes it if it is empty at the end.
    """
    folder = folder_of(output)
    new_folders = [folder, *(parent for parent in folder.parents if not parent.exists())]
    try:
        with atomic.errors_named(folder):
            held = locks.take(folder)
    except DataError as error:
        if isinstance(error.__cause__, BlockingIOError):
            raise _in_use(output) from None
        raise
    try:
        yield held
    finally:
        if locks.is_of(held, folder):
            for path in new_folders:
                # A folder that is not empty is kept.
                with contextlib.suppress(OSError):
                    path.rmdir()
        locks.unlock(held)


def _in_use(output: Path) -> DataError:
    remedy = ("wait for it, or choose another ", Setting("output"))
    return DataError(output, None, "in use by a run that writes it", remedy)


def output_of(named: Path) -> Path:
    """The output of a run, by its name or that of its folder of checkpoints."""
    if not named.name.endswith(SUFFIX):
        return named
    return named.with_name(named.name.removesuffix(SUFFIX))


def requested(output: Path) -> Requested:
    """The run whose checkpoints are next to `output`. Raises `EmbedxError` if there are none."""
    file = folder_of(output) / RUN
    try:
        run = _as_named_here(json.loads(file.read_bytes()))
        started = Requested(
            command=str(run["command"]),
            arguments=dict(run["arguments"]),
            directory=str(run["directory"]),
            packages=dict(run.get("packages", {})),
        )
        version = run["embedx"]
    except FileNotFoundError:
        problem = f"no run to resume: there is no {os.path.basename(file.parent)} beside it"
        if file.parent.is_dir():
            problem = "no run to resume: it ended before it wrote a checkpoint"
        remedy = "start it with its original command"
        raise DataError(output, None, problem, remedy) from None
    except DAMAGED as error:
        raise damaged(file, str(error)) from error
    if version != folders.installed_version():
        problem = f"of embedx {version}, while this is {folders.installed_version()}"
        again = ("start the run again with ", Setting("overwrite", True))
        raise DataError(file, None, problem, ("resume it with that version, or ", again))
    return started


def _as_named_here(value: Any) -> Any:
    """JSON with its strings, names of files, decoded by the locale of this process, which may
    differ from that of the process that wrote them. Strings that cannot be decoded are kept.
    """
    if isinstance(value, dict):
        return {key: _as_named_here(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_named_here(item) for item in value]
    if isinstance(value, str):
        with contextlib.suppress(UnicodeError):
            return os.fsdecode(value.encode("utf-8", "surrogateescape"))
    return value


def damaged(file: Path, problem: str) -> DataError:
    """The error for a damaged description of a run."""
    remedy = ("start the run again with its command and ", Setting("overwrite", True))
    return DataError(file, None, f"damaged ({problem})", remedy)


def check_trusted(file: Path) -> None:
    """Raise `DataError` if other users than this one and root may have written the file."""
    if os.name != "posix":
        return
    for path in (file, file.parent):
        status = path.stat()
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & stat.S_IWOTH:
            problem = "other users can write it, and it names a cluster or a log"
            remedy = "if you know what is in it, make it your own with chown and chmod o-w"
            raise DataError(path, None, problem, remedy)


class Checkpoints:
    """The checkpoints of a run: existing ones, and those that it writes.

    Raises `EmbedxError` if there are checkpoints of another run, or of this one without `resumes`.

    identity   what the run depends on in addition to its arguments
    began      start of the interval to the next checkpoint
    writing    the thread that writes a checkpoint
    resumable  the states to resume from, the newest first
    """

    def __init__(self, output: Path, request: Command, overwrite: bool, progress: Progress) -> None:
        self.output = output
        self.folder = folder_of(output)
        self.request = request
        self.progress = progress
        self.identity: Callable[[], Record] = dict
        self.began = time.monotonic()
        self.writing: threading.Thread | None = None
        self.lock: locks.Lock | None = None
        self.resumable: list[Path] = []
        if os.path.lexists(self.folder):
            self._look_for_states(overwrite)

    def _look_for_states(self, overwrite: bool) -> None:
        """Find the states to resume from. Raises `EmbedxError` if the folder must not be used."""
        check_not_in_use(self.output)
        with atomic.errors_named(self.folder):
            names = {file.name for file in self.folder.iterdir()}
        # A run that is killed early leaves only PARTIAL_RUN.
        if RUN not in names and names - {PARTIAL_RUN}:
            remedy = ("choose another ", Setting("output"))
            raise DataError(self.folder, None, "not a folder of checkpoints", remedy)
        if self.request.resumes and RUN in names:
            self._check_same(self.output)
            self.resumable = self.states()
        elif self.states() and not overwrite:
            resume = ("add ", Setting("resume", True), " to continue it")
            again = (Setting("overwrite", True), " to start again")
            problem = "the state of an unfinished run"
            raise DataError(self.folder, None, problem, (resume, ", or ", again))

    def _check_same(self, output: Path) -> None:
        """Raise `EmbedxError` unless the command is the one that started the run."""
        started = requested(output)
        then = _by_name(started.command, started.arguments, started.directory)
        now = _by_name(self.request.command, self.request.arguments, os.getcwd())
        compared = (now.keys() | then.keys()) - self.request.free
        others = sorted(name for name in compared if now.get(name) != then.get(name))
        if others:
            names = joined((Setting(name) for name in others), ", ")
            problem = ("of a run with other arguments (", names, ")")
            again = (START_AGAIN, " instead of ", Setting("resume", True))
            remedy = ("resume it with its own, or ", again)
            raise DataError(self.folder / RUN, None, problem, remedy)

    def states(self) -> list[Path]:
        """The states on disk, the newest first."""
        files = self.folder.glob("state-*.npz")
        return sorted((file for file in files if OURS.fullmatch(file.name)), reverse=True)

    @property
    def resumes(self) -> bool:
        """Whether there is a state to resume from."""
        return bool(self.resumable)

    def check_disk(self, model: float, state: float) -> None:
        """Report the size of the output, as a warning if it does not fit, else as a detail. Raises
        `EmbedxError` if the model alone does not fit.
        """
        n_states = 0
        if math.isfinite(self.request.every):
            n_being_written = 1
            n_states = KEPT_STATES + n_being_written - len(self.resumable)
        line, is_short = check_disk(self.folder.parent, model, n_states * state)
        if is_short:
            self.progress.warn(line)
        else:
            self.progress.detail(line)

    def begin(self, identity: Callable[[], Record]) -> None:
        """Start training, once the data are read: delete states of an earlier run, unless this
        one resumes it.

        identity  returns what the run depends on in addition to its arguments, mainly its data,
                  as JSON types. It is called when a state is written or read
        """
        self.identity = identity
        if not self.request.resumes:
            self._delete_files()

    # ---- reading

    def restore(self, state: TrainState) -> None:
        """Restore the state of the last checkpoint.

        Raises `EmbedxError` if it belongs to other data, or if none can be read.
        """
        damaged_file: Path | None = None
        why = "no checkpoint to resume from"
        for file in self.resumable:
            try:
                tree = self._read(file, state)
            except DAMAGED as error:
                if damaged_file is None:
                    damaged_file = file
                    why = f"damaged ({str(error) or type(error).__name__})"
                self.progress.note(f"{file}: damaged, so it is skipped")
                continue
            self._restore_from(file, tree, state)
            return
        raise DataError(damaged_file or self.folder, None, why, START_AGAIN)

    def _restore_from(self, file: Path, tree: Record, state: TrainState) -> None:
        """Restore the state of a checkpoint. Raises `DataError` if it belongs to other data."""
        identity = plain(self.identity())
        changed = [name for name, value in identity.items() if tree["identity"].get(name) != value]
        if changed:
            problem = f"the {' and the '.join(changed)} changed since"
            raise DataError(file, None, problem, START_AGAIN)
        try:
            state.restore(tree["values"])
        except ValueError as error:
            problem = f"does not fit this run ({error})"
            raise DataError(file, None, problem, START_AGAIN) from error
        self.progress.note(f"resumed from {file}, of {tree['at']}")

    def roll_back(self, state: TrainState, good_step: int) -> bool:
        """Restore the state of the last checkpoint of at most `good_step` chunks, or of the last
        one if there is none. Returns False if none can be read.
        """
        self.finish()
        values = self._last_values(state, good_step)
        if values is not None:
            state.restore(values)
        return values is not None

    def _last_values(self, state: TrainState, good_step: int) -> Record | None:
        """The values of the last checkpoint of at most `good_step` chunks, or of the last one if
        there is none; None if none can be read.
        """
        newest: Record | None = None
        for file in self.states():
            with contextlib.suppress(*DAMAGED):
                values: Record = self._read(file, state)["values"]
                if values["trainer.next_step"] <= good_step:
                    return values
                newest = newest or values
        return newest

    def _read(self, file: Path, state: TrainState) -> Record:
        """Read a state that `_write` wrote. Raises one of DAMAGED."""
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:

            def with_array(value: Record) -> Any:
                if value.keys() != {ARRAY}:
                    return value
                return stored[f"array{value[ARRAY]}"][()]

            tree: Record = json.loads(bytes(stored["tree"]), object_hook=with_array)
        tree["values"] = {
            name: typed(tree["values"][name], value.read()) for name, value in state.values.items()
        }
        return tree

    # ---- writing

    def is_due(self) -> bool:
        """Whether the last checkpoint is written and the interval since it has passed."""
        if self.writing is not None and self.writing.is_alive():
            return False
        return time.monotonic() - self.began >= self.request.every

    def take(self, state: TrainState, wait: bool = False) -> None:
        """Write the state; called while nothing changes it. With `wait`, return once it is on
        disk.
        """
        self.began = time.monotonic()
        self.finish()
        live = {name: value.read() for name, value in state.values.items()}
        if wait or n_bytes(live) > MAX_COPY_SHARE * available_memory():
            self._write(live)
            return
        snapshot = state.snapshot()
        # If the start of a thread were interrupted, it could not be waited for.
        to_the_end(lambda: self._write_beside(snapshot), then_raise=True)

    def _write_beside(self, values: Options) -> None:
        """Start writing a snapshot in a thread."""
        self.writing = threading.Thread(target=self._write, args=(values,), name="checkpoint")
        self.writing.start()

    def _write(self, values: Options) -> None:
        """Write a snapshot; an error is reported, and the earlier checkpoints are kept."""
        try:
            self._make_folder()
            self._write_state(values)
        except OSError as error:
            kept = "the last one is kept" if self.states() else "there is none"
            self.progress.warn(
                f"no checkpoint was written to {self.folder}: {error.strerror or error}; {kept}"
            )
        finally:
            for file in self.states()[KEPT_STATES:]:
                with contextlib.suppress(OSError):
                    file.unlink()

    def _write_state(self, values: Options) -> None:
        """Write a snapshot to a new file."""
        arrays: dict[str, np.ndarray] = {}

        def number_of(array: Any) -> dict[str, int]:
            number = len(arrays)
            arrays[f"array{number}"] = np.asarray(array)
            return {ARRAY: number}

        tree = {
            "values": values,
            "identity": plain(self.identity()),
            "at": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        text = json.dumps(tree, default=number_of).encode()
        file = self._next_file()
        with atomic.replacing(file, file.with_suffix(".partial")) as out:
            np.savez(out, allow_pickle=False, tree=np.frombuffer(text, np.uint8), **arrays)

    def _next_file(self) -> Path:
        """The file of the next state: states are numbered from 1."""
        states = self.states()
        number = int(states[0].stem[-8:]) + 1 if states else 1
        return self.folder / f"state-{number:08}.npz"

    def _make_folder(self) -> None:
        """Create the folder with its description, if they do not exist yet."""
        if (self.folder / RUN).exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.lock is None:
            self.lock = locks.lock(self.folder, wait=False)
        run = {
            "embedx": folders.installed_version(),
            "command": self.request.command,
            "arguments": dict(self.request.arguments),
            "directory": os.getcwd(),
            **self.request.packages,
        }
        with atomic.replacing(self.folder / RUN, self.folder / PARTIAL_RUN) as out:
            out.write(folders.json_text(run).encode())

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Lock the output during the run, and delete the checkpoints if it diverges, because it
        would diverge again. Raises `DataError` if another run has the lock.
        """
        with reserved(self.output) as self.lock:
            try:
                yield
            except DivergedError:
                self.remove()
                raise
            finally:
                self.finish()
                self.lock = None

    def close(self, output: Path, is_over: bool) -> None:
        """Called once the model is saved: delete the checkpoints if the run `is_over`, else report
        how to resume it.
        """
        if is_over:
            self.remove()
        elif self.states():
            self.progress.note(
                f"its state is in {self.folder}; `{resumed_by(output)}` continues it"
            )

    def how_to_resume(self) -> str:
        """How to resume a run whose model cannot be written; "" if there is no checkpoint."""
        if not self.states():
            return ""
        command = resumed_by(self.output)
        return (
            f"{self._how_to_free_space()}when that is fixed, `{command}` continues from the last"
            " checkpoint"
        )

    def _how_to_free_space(self) -> str:
        """The command that deletes all states except the last; "" if there is only one."""
        older = self.states()[1:]
        if not older:
            return ""
        size = amount(sum(file.stat().st_size for file in older))
        return f"{shell.command_line(['rm', *map(str, older)])} frees {size}; "

    def finish(self) -> None:
        """Wait until a checkpoint that is being written is on disk."""
        if self.writing is not None:
            self.writing.join()

    def _delete_files(self) -> None:
        """Delete the states, then the description of their run."""
        self.finish()
        self.resumable = []
        if not self.folder.is_dir():
            return
        ours = [file for file in self.folder.iterdir() if OURS.fullmatch(file.name)]
        for file in sorted(ours, key=lambda file: file.name == RUN):
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the checkpoints: the run is over."""
        self._delete_files()
        if not self.folder.is_dir():
            return
        try:
            self.folder.rmdir()
        except OSError:
            self.progress.note(
                f"{self.folder}: kept, because it has files that embedx did not write"
            )


def _by_name(command: str, arguments: Options, directory: str) -> Record:
    """A command by the names of its arguments and settings."""
    settings = arguments.get("typed") or {}
    return {**arguments, **settings, "command": command, "directory": directory}


def resumed_by(output: Path) -> str:
    """The command that resumes a run, for a shell."""
    return shell.command_line(["embedx", "resume", str(output)])


def checksum(array: np.ndarray) -> int:
    """CRC-32 of the bytes of an array, which may be mapped from a file."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def typed(value: Any, like: Any) -> Any:
    """A value from JSON, which has lists only, with tuples where `like`, the value that it
    replaces, has tuples.
    """
    if isinstance(like, tuple):
        parts = [typed(part, like_part) for part, like_part in zip(value, like, strict=True)]
        is_named = hasattr(like, "_fields")
        return type(like)(*parts) if is_named else tuple(parts)
    if isinstance(like, list) and like:
        return [typed(item, like[0]) for item in value]
    return value


def plain(value: Any) -> Any:
    """A value after a round trip through JSON."""
    return json.loads(json.dumps(value, default=folders.plain))
