"""Sources read by the machines of a cluster, a part of them by each; this one puts the parts together, in order.

What a machine cannot read as it stands here, and what was lost with its machine again and again, this one reads itself. So it
does where reading fails, which tells the user the same as without a cluster.
"""

import contextlib
import dataclasses
import itertools
import os
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from embedx.cluster.ray_nodes import DEPTH, PATIENCE, STEP, LostWorkerError, Size, Tasks, is_inside
from embedx.errors import EmbedxError
from embedx.run.folder import installed_version
from embedx.run.memory import available_memory
from embedx.run.progress import Progress, Silent
from embedx.run.trainer import usable_cores
from embedx.settings import TextSettings
from embedx.text import cache
from embedx.text.building import Building, explained
from embedx.text.parts import LEAST_BYTES, Part, Parts, divided, encoded, keep, kept
from embedx.text.reading import COUNT_SHARE, read
from embedx.text.sources import Source, current_fingerprint, is_url, total_size

PARTS_EACH = 4  # for each worker where there is enough to read, so that all are done at about the same time
TELLING = 1.0  # seconds between two times that a machine tells how far it is

Tell = Callable[[int, int], None]  # bytes read, as stored, and tokens
Items = Iterator["Part | np.ndarray"]


class Refused(NamedTuple):
    """A machine does not read a part."""

    why: str


def identity() -> tuple[Any, ...]:
    """What must be the same for tokens to be the same."""
    return installed_version(), cache.FORMAT, unicodedata.unidata_version


def encoded_there(
    sources: Sequence[Source], settings: TextSettings, home: Path | None, threads: int, wanted: tuple[Any, ...], tell: Tell
) -> Iterator[Part | np.ndarray | Refused]:
    """What `parts.encoded` yields, on another machine; or why it cannot be done there."""
    tell(0, 0)
    if settings.vocab_memory is None:  # other tasks of the machine want some too
        share = COUNT_SHARE / max(usable_cores() // threads, 1)
        settings = dataclasses.replace(settings, vocab_memory=share * available_memory() / 1e9)
    with contextlib.closing(encoded(sources, settings, Telling(tell), home or cache.default_folder(), threads)) as items:
        why = difference(sources, wanted)
        try:
            part = None if why else next(items)
        except (EmbedxError, MemoryError) as error:
            why = str(error)
        why = why or difference(sources, wanted)  # it may have been changed meanwhile
        if why or part is None:
            yield Refused(f"{os.uname().nodename}: {why}")
        else:
            yield part
            yield from items


def difference(sources: Sequence[Source], wanted: tuple[Any, ...]) -> str:
    """Why tokens would not be the same on this machine; "" if they would, as far as one can tell."""
    if identity() != wanted:
        return f"another embedx ({installed_version()}) or Python than here"
    for source in sources:
        if source.fingerprint is None or "path" not in source.fingerprint:
            continue
        try:
            found = current_fingerprint(source)
        except EmbedxError:
            found = None
        if found is None:
            return f"no file {source.name}"
        if {**found, "path": ""} != {**source.fingerprint, "path": ""}:  # to which other links may lead there
            return f"{source.name} has another size or time than here"
    return ""


class Telling(Silent):
    """Tells how far the reading of a part is, now and then."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.last = 0.0

    def update(self, done: float, **facts: Any) -> None:
        if (now := time.monotonic()) - self.last > TELLING:
            self.last = now
            self.tell(int(done), facts["tokens"])


def read_by_machines(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress,
    building: Building,
    size: Size,
    home: Path | None,
    threads: int,
) -> dict[str, Any]:
    """Read all sources into `building`, by tasks as large as workers; what `reading.read` does, and with the same result.

    home      where tasks may write on their machines, a folder of the token cache; by default that of each machine
    threads   of this process, for what it reads itself
    """
    enough = min(LEAST_BYTES * size.threads, (total_size(sources) or 0) // (PARTS_EACH * size.workers))
    shares = divided(sources, max(LEAST_BYTES, enough))
    if len(shares) == 1:
        return read(sources, settings, progress, building, threads)
    if not is_inside():
        progress.note("this machine is not one of the cluster, so it reads all sources itself")
        return read(sources, settings, progress, building, threads)
    return _Reading(shares, settings, progress, building, size, home, threads).run(sources)


class _Reading:
    """The reading of parts: some by tasks, which are set aside when they are done, until it is their turn."""

    def __init__(
        self,
        shares: Sequence[Sequence[Source]],
        settings: TextSettings,
        progress: Progress,
        building: Building,
        size: Size,
        home: Path | None,
        threads: int,
    ) -> None:
        self.shares, self.settings, self.progress, self.building = shares, settings, progress, building
        self.size, self.home, self.threads = size, home, threads
        self.told: dict[int, tuple[int, int]] = {}  # of each part: bytes and tokens
        self.aside: dict[int, Path] = {}
        # Which are read by this process, and why.
        own = {n: share[0].name for n, share in enumerate(shares) if any(source.fingerprint is None for source in share)}
        self.here = {number: f"{name}: no other machine has it" for number, name in own.items()}
        self.waiting = iter([number for number in range(len(shares)) if number not in own])

    def run(self, sources: Sequence[Source]) -> dict[str, Any]:
        """Read all; the report."""
        self.progress.note(f"{len(sources):,} sources are read in {len(self.shares):,} parts, by the machines of the cluster")
        parts = Parts(sources, self.settings, self.building, self.progress)
        self.progress.start("reading", total_size(sources), "B")
        with contextlib.closing(Tasks(encoded_there, self.size.threads)) as tasks:
            for number in range(len(self.shares)):
                self._wait_for(number, tasks)
                items = self._set_aside(number) if number in self.aside else self._read_here(number, tasks)
                part = cast(Part, next(items))
                parts.add(part, cast(Iterator[np.ndarray], items))
                self.told[number] = part.report["bytes_read"], part.report["n_tokens"]
                self._update()
        self.progress.finish()
        self._note_read_here()
        return parts.finish()

    def _wait_for(self, number: int, tasks: Tasks) -> None:
        """Have all machines at work until the part is there, or is found to be read here."""
        self._serve(tasks, 0.0)
        began, is_told = time.monotonic(), False
        while number not in self.aside and number not in self.here:
            self._serve(tasks, STEP)
            if not is_told and not self.told and time.monotonic() - began > PATIENCE:
                is_told = True
                self.progress.note(
                    f"waiting for machines to read; each task needs {self.size.threads} CPUs of one, and `ray status` tells "
                    "what is free"
                )

    def _serve(self, tasks: Tasks, timeout: float) -> None:
        """Begin tasks, and take what others have found; waits at most so many seconds for one."""
        while len(tasks.running) < DEPTH * self.size.workers and (number := next(self.waiting, None)) is not None:
            share = [_found_anywhere(source) for source in self.shares[number]]
            tasks.start(number, share, self.settings, self.home, self.size.threads, identity())
        for each in tasks.finished(timeout):
            self._take(each, tasks)
        self.told |= {each: told for each, told in tasks.told().items() if each in tasks.running}
        self._update()

    def _take(self, number: int, tasks: Tasks) -> None:
        """Set aside what a task has found, on the disk of this machine."""
        path = self.building.folder / f"part-{number}.bin"
        try:
            items = tasks.items(number)
            first = next(items)
            if isinstance(first, Refused):
                self.here[number] = first.why
                return
            with explained(self.building.home):
                keep(itertools.chain([first], items), path)
        except LostWorkerError as error:
            path.unlink(missing_ok=True)
            self.here[number] = f"the machine that read it is lost ({error})"
        else:
            self.aside[number] = path
            self.told[number] = first.report["bytes_read"], first.report["n_tokens"]

    def _set_aside(self, number: int) -> Items:
        """What a task has found."""
        path = self.aside.pop(number)
        with explained(self.building.home, "read"):
            yield from kept(path)
        path.unlink()

    def _read_here(self, number: int, tasks: Tasks) -> Items:
        """What this process finds, while the others go on."""

        def tell(stored: int, tokens: int) -> None:
            self.told[number] = stored, tokens
            self._serve(tasks, 0.0)

        return encoded(self.shares[number], self.settings, Telling(tell), self.building.home, self.threads)

    def _update(self) -> None:
        if self.told:
            stored, tokens = (sum(each) for each in zip(*self.told.values(), strict=True))
            self.progress.update(stored, tokens=tokens)

    def _note_read_here(self) -> None:
        """Tell what was read here, and why."""
        if self.here:
            n, n_all = sum(len(self.shares[number]) for number in self.here), sum(map(len, self.shares))
            self.progress.note(f"{n:,} of {n_all:,} sources were read by this machine itself ({self.here[min(self.here)]})")


def _found_anywhere(source: Source) -> Source:
    """The source, by an address that does not depend on the current directory."""
    return source if is_url(source.address) else dataclasses.replace(source, location=os.path.abspath(source.address))
