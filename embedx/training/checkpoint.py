"""Checkpoints: the state of a run on disk, from which the same command resumes after whatever ended
it.

The last two are kept, so that a damaged one costs only an interval; the folder is deleted when the
model is saved. A checkpoint is written from a copy of the state in memory while training continues;
if the copy does not fit, training waits. The folder is described in checkpoint_folder.py.
"""

import contextlib
import functools
import math
import os
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np

from embedx.errors import DataError, DivergedError, Setting, joined
from embedx.runtime import atomic, locks, shell
from embedx.runtime.disk import amount, check_disk
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MAX_COPY_SHARE, available_memory, n_bytes
from embedx.runtime.progress import Progress
from embedx.settings import Options, Record
from embedx.training.checkpoint_folder import (
    OURS,
    PARTIAL_RUN,
    RUN,
    check_not_in_use,
    folder_of,
    reserved,
)
from embedx.training.run_command import RunCommand, read_command, resume_command
from embedx.training.state import TrainState
from embedx.training.state_file import DAMAGED, StoredState, json_types, read_state, write_state

KEPT_STATES = 2
START_AGAIN = ("start again with ", Setting("overwrite", True))


class Checkpoints:
    """The checkpoints of a run: existing ones, and those that it writes.

    command     of the run
    every       seconds between two checkpoints
    resume      continue from a checkpoint, if there is one; refused if another command wrote it
    overwrite   without `resume`: delete existing checkpoints when training begins
    changeable  names of arguments and settings of the command that may change when it is resumed

    Raises `EmbedxError` if there are checkpoints, and neither `resume` nor `overwrite` is given, or
    if they are of another command.
    """

    def __init__(
        self,
        output: Path,
        command: RunCommand,
        progress: Progress,
        *,
        every: float,
        resume: bool = False,
        overwrite: bool = False,
        changeable: Collection[str] = (),
    ) -> None:
        self.output = output
        self.folder = folder_of(output)
        self.command = command
        self.progress = progress
        self.every = every
        self.resume = resume
        self.changeable = changeable
        # What the run depends on in addition to its command, mainly its data.
        self.identity: Callable[[], Record] = dict
        # Start of the interval to the next checkpoint.
        self.began = time.monotonic()
        # The thread that writes a checkpoint.
        self.writing: threading.Thread | None = None
        self.lock: locks.Lock | None = None
        # The states to resume from, the newest first.
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
        if self.resume and RUN in names:
            self._check_command()
            self.resumable = self.states()
        elif self.states() and not overwrite:
            resume = ("add ", Setting("resume", True), " to continue it")
            again = (Setting("overwrite", True), " to start again")
            problem = "the state of an unfinished run"
            raise DataError(self.folder, None, problem, (resume, ", or ", again))

    def _check_command(self) -> None:
        """Raise `EmbedxError` unless the command is the one that started the run."""
        changes = self.command.changes(read_command(self.output), self.changeable)
        if changes:
            names = joined((Setting(name) for name in changes), ", ")
            problem = ("of a run with other arguments (", names, ")")
            again = (START_AGAIN, " instead of ", Setting("resume", True))
            remedy = ("resume it with its own, or ", again)
            raise DataError(self.folder / RUN, None, problem, remedy)

    def states(self) -> list[Path]:
        """The states on disk, the newest first."""
        files = self.folder.glob("state-*.npz")
        return sorted((file for file in files if OURS.fullmatch(file.name)), reverse=True)

    @property
    def is_resuming(self) -> bool:
        """Whether the run continues from a checkpoint."""
        return bool(self.resumable)

    def check_disk(self, model: float, state: float) -> None:
        """Report the size of the output, as a warning if it does not fit, else as a detail. Raises
        `EmbedxError` if the model alone does not fit.
        """
        n_states = 0
        if math.isfinite(self.every):
            n_being_written = 1
            n_states = KEPT_STATES + n_being_written - len(self.resumable)
        line, is_short = check_disk(self.folder.parent, model, n_states * state)
        if is_short:
            self.progress.warn(line)
        else:
            self.progress.detail(line)

    def begin(self, identity: Callable[[], Record]) -> None:
        """Start training, once the data are read: delete checkpoints of an earlier run, unless this
        one resumes it.

        identity  returns what the run depends on in addition to its command, mainly its data, as
                  JSON types; called once, when the first checkpoint is read or written
        """
        self.identity = functools.cache(identity)
        if not self.resume:
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
                stored = read_state(file, state)
            except DAMAGED as error:
                if damaged_file is None:
                    damaged_file = file
                    why = f"damaged ({str(error) or type(error).__name__})"
                self.progress.note(f"{file}: damaged, so it is skipped")
                continue
            self._restore_from(file, stored, state)
            return
        raise DataError(damaged_file or self.folder, None, why, START_AGAIN)

    def _restore_from(self, file: Path, stored: StoredState, state: TrainState) -> None:
        """Restore the state of a checkpoint. Raises `DataError` if it belongs to other data."""
        identity = json_types(self.identity())
        changed = [name for name, value in identity.items() if stored.identity.get(name) != value]
        if changed:
            problem = f"the {' and the '.join(changed)} changed since"
            raise DataError(file, None, problem, START_AGAIN)
        try:
            state.restore(stored.values)
        except ValueError as error:
            problem = f"does not fit this run ({error})"
            raise DataError(file, None, problem, START_AGAIN) from error
        self.progress.note(f"resumed from {file}, of {stored.at}")

    def roll_back(self, state: TrainState, n_chunks: int) -> bool:
        """Restore the state of the last checkpoint of at most `n_chunks` chunks, or of the last
        one if there is none. Returns False if none can be read.
        """
        self.finish()
        values = self._last_values(state, n_chunks)
        if values is not None:
            state.restore(values)
        return values is not None

    def _last_values(self, state: TrainState, n_chunks: int) -> Options | None:
        """The values of the last checkpoint of at most `n_chunks` chunks, or of the last one if
        there is none; None if none can be read.
        """
        newest: Options | None = None
        for file in self.states():
            with contextlib.suppress(*DAMAGED):
                values = read_state(file, state).values
                if values["trainer.next_chunk"] <= n_chunks:
                    return values
                newest = newest or values
        return newest

    # ---- writing

    def is_due(self) -> bool:
        """Whether the last checkpoint is written and the interval since it has passed."""
        if self.writing is not None and self.writing.is_alive():
            return False
        return time.monotonic() - self.began >= self.every

    def take(self, state: TrainState, wait: bool = False) -> None:
        """Write the state; called while nothing changes it. With `wait`, return once it is on
        disk.
        """
        self.began = time.monotonic()
        self.finish()
        live = state.live_values()
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
            at = time.strftime("%Y-%m-%d %H:%M:%S")
            stored = StoredState(values, json_types(self.identity()), at)
            write_state(self._next_file(), stored)
        except OSError as error:
            kept = "the last one is kept" if self.states() else "there is none"
            self.progress.warn(
                f"no checkpoint was written to {self.folder}: {error.strerror or error}; {kept}"
            )
        finally:
            for file in self.states()[KEPT_STATES:]:
                with contextlib.suppress(OSError):
                    file.unlink()

    def _next_file(self) -> Path:
        """The file of the next state: states are numbered from 1."""
        states = self.states()
        number = int(states[0].stem[-8:]) + 1 if states else 1
        return self.folder / f"state-{number:08}.npz"

    def _make_folder(self) -> None:
        """Create the folder with the command of the run, if they do not exist yet."""
        if (self.folder / RUN).exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.lock is None:
            self.lock = locks.lock(self.folder, wait=False)
        self.command.write(self.folder)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
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
                f"its state is in {self.folder}; `{resume_command(output)}` continues it"
            )

    def how_to_resume(self) -> str:
        """How to resume a run whose model cannot be written; "" if there is no checkpoint."""
        if not self.states():
            return ""
        command = resume_command(self.output)
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
        """Delete the states, then the command of their run."""
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


def checksum(array: np.ndarray) -> int:
    """CRC-32 of the bytes of an array, which may be mapped from a file."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
