"""The folder of a run's data on the machines of a cluster: where a worker cannot see it, it copies it once."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Read = Callable[[str, int, int], bytes]  # name, first byte, how many


@dataclass(frozen=True)
class SharedFolder:
    """A folder of plain files on the machine of the run, which does not change."""

    folder: Path
    sizes: dict[str, int]  # bytes of each file
    witness: tuple[str, bytes]  # a small file and what is in it, by which the folder is known again
    read: Read  # from anywhere in the cluster

    def is_here(self, folder: Path) -> bool:
        """Whether a folder of this machine has the same files."""
        name, content = self.witness
        with contextlib.suppress(OSError):
            sizes = {each: (folder / each).stat().st_size for each in self.sizes}
            return sizes == self.sizes and (folder / name).read_bytes() == content
        return False

    def local(self, home: Path) -> Path:
        """The folder as this machine has it: the same, one under the same name in `home`, or a copy that is made there."""
        own = home / self.folder.name
        for each in (self.folder, own):
            if self.is_here(each):
                return each
        home.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(".embedx", "building-", home))
        for name, size in self.sizes.items():
            with (made / name).open("wb") as out:
                for first in range(0, size, BLOCK):
                    out.write(self.read(name, first, min(BLOCK, size - first)))
        with contextlib.suppress(OSError):  # another worker was quicker
            made.rename(own)
            return own
        return own if self.is_here(own) else made


BLOCK = 1 << 26  # bytes that are copied at a time


class Files:
    """Reads the files of a folder for others; an actor on the machine of the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str, first: int, n: int) -> bytes:
        """Some bytes of a file."""
        with (self.folder / name).open("rb") as file:
            return os.pread(file.fileno(), n, first)


def shared(folder: Path, witness: str, read: Read) -> SharedFolder:
    """A folder, to be handed to workers."""
    sizes = {each.name: each.stat().st_size for each in folder.iterdir() if each.is_file()}
    return SharedFolder(folder, sizes, (witness, (folder / witness).read_bytes()), read)
