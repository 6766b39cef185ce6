"""Sources read by the machines of a cluster, a part of them by each; this one puts the parts together, in order.

What a machine cannot read as it stands here, and what was lost with its machine again and again, this one reads itself. So it
does where reading fails, which tells the user the same as without a cluster.
"""

import collections
import contextlib
import dataclasses
import itertools
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedx.distributed.ray_backend import DEPTH, PATIENCE, LostWorkerError, Size, Tasks, is_inside
from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.storage.folder import installed_version
from embedx.text import cache
from embedx.text.building import Building, explained
from embedx.text.parts import MIN_BYTES, Part, Parts, divided, encoded, keep, kept
from embedx.text.reading import COUNT_SHARE, read
from embedx.text.sources import Source, current_fingerprint, is_url, total_size
from embedx.training.memory import available_memory
from embedx.training.progress import Progress, Silent
from embedx.training.trainer import usable_cores

PARTS_EACH = 8  # for each worker where there is enough to read: all are done at about the same time, and progress is seen


class Refused(NamedTuple):
    """A machine does not read a part."""

    why: str


def identity() -> tuple[Any, ...]:
    """What must be the same for tokens to be the same."""
    return installed_version(), cache.FORMAT, unicodedata.unidata_version


def encoded_there(
    sources: Sequence[Source], settings: TextSettings, home: Path | None, threads: int, wanted: tuple[Any, ...]
) -> Iterator[Part | np.ndarray | Refused]:
    """What `parts.encoded` yields, on another machine; or why it cannot be done there."""
    if settings.vocab_memory is None:  # other tasks of the machine need some too
        share = COUNT_SHARE / max(usable_cores() // threads, 1)
        settings = dataclasses.replace(settings, vocab_memory=share * available_memory() / 1e9)
    with contextlib.closing(encoded(sources, settings, Silent(), home or cache.default_folder(), threads)) as items:
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
        if {**found, "path": ""} != {**source.fingerprint, "path": ""}:  # other links may lead there
            return f"{source.name} has another size or time than here"
    return ""


class Ahead(Silent):
    """Tells how far the part is that this machine reads, beside what was read before."""

    def __init__(self, progress: Progress, parts: Parts) -> None:
        self.progress, self.stored, self.n_tokens = progress, parts.stored, parts.n_tokens

    def update(self, done: float, **facts: Any) -> None:
        self.progress.update(self.stored + done, tokens=self.n_tokens + facts["tokens"])


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
    enough = min(MIN_BYTES * size.threads, (total_size(sources) or 0) // (PARTS_EACH * size.workers))
    shares = divided(sources, max(MIN_BYTES, enough))
    if len(shares) > 1 and not is_inside():
        progress.note("this machine is not one of the cluster, so it reads all sources itself")
    if len(shares) == 1 or not is_inside():
        return read(sources, settings, progress, building, threads)
    progress.note(f"{len(sources):,} sources are read in {len(shares):,} parts, by the machines of the cluster")
    parts, read_here = Parts(sources, settings, building, progress), {}  # why, by number
    progress.start("reading", total_size(sources), "B")
    tasks = Tasks(encoded_there, size.threads)
    running: collections.deque[Any] = collections.deque()  # in order; None for those that no other machine can read
    ahead = iter(shares)
    path = building.folder / "part.bin"
    with contextlib.closing(tasks):
        for number, share in enumerate(shares):
            for each in itertools.islice(ahead, DEPTH * size.workers - len(running)):
                is_anywhere = all(source.fingerprint is not None for source in each)
                there = [_found_anywhere(source) for source in each]
                running.append(tasks.start(there, settings, home, size.threads, identity()) if is_anywhere else None)
            task = running.popleft()
            why = f"{share[0].name}: no other machine has it" if task is None else _taken(tasks, task, path, building, progress)
            if why:
                read_here[number] = why
                items: Iterator[Any] = encoded(share, settings, Ahead(progress, parts), building.home, threads)
            else:
                items = kept(path)
            parts.add(next(items), items)
            progress.update(parts.stored, tokens=parts.n_tokens)
    path.unlink(missing_ok=True)
    progress.finish()
    if read_here:
        n, why = sum(len(shares[number]) for number in read_here), next(iter(read_here.values()))
        progress.note(f"{n:,} of {len(sources):,} sources were read by this machine itself ({why})")
    return parts.finish()


def _taken(tasks: Tasks, task: Any, path: Path, building: Building, progress: Progress) -> str:
    """Wait for a task and write to a file what it found; why it found nothing, or ""."""
    if not building.n_entries() and not tasks.is_over(task, PATIENCE):
        progress.note("waiting for machines to read; `ray status` tells what they do and what is free")
    try:
        items = tasks.items(task)
        first = next(items)
        if isinstance(first, Refused):
            return first.why
        with explained(building.home):
            keep(itertools.chain([first], items), path)
    except LostWorkerError as error:
        return f"the machine that read it is lost ({error})"
    return ""


def _found_anywhere(source: Source) -> Source:
    """The source, by an address that does not depend on the current directory."""
    return source if is_url(source.address) else dataclasses.replace(source, location=os.path.abspath(source.address))
