"""Recognises folders that embedx itself writes; within the folder of a corpus they are not text."""

import collections
from collections.abc import Collection, Iterable
from pathlib import Path

# Suffixes of numba's cache files.
KERNEL_SUFFIXES = (".nbi", ".nbc")


def kind_of(folder: Path, names: Collection[str]) -> str:
    """The kind of a folder with these files: "model", "checkpoint", "token cache" or "kernel
    cache"; "" if embedx did not write it.
    """
    if any(name.endswith(KERNEL_SUFFIXES) for name in names):
        return "kernel cache"
    # imported where they are needed, so that the help is quick
    if "model.json" in names:
        from embedx.storage.replacement import is_model

        return "model" if is_model(folder) else ""
    if folder.name.endswith(".checkpoint"):
        from embedx.training.checkpoint_folder import is_checkpoint_folder

        return "checkpoint" if is_checkpoint_folder(folder) else ""
    if "about.json" in names or "tokens.bin" in names:
        from embedx.text.corpus_writer import is_kept

        return "token cache" if is_kept(folder) else ""
    return ""


def listed(folders: Iterable[tuple[str, str]]) -> str:
    """Folders by kind, for a message: "2 models (first: news/model)"."""
    paths = collections.defaultdict(list)
    for kind, path in folders:
        paths[kind].append(path)
    return ", ".join(
        f"{len(folders_of_kind)} {kind}{'s' * (len(folders_of_kind) > 1)}"
        f" (first: {folders_of_kind[0]})"
        for kind, folders_of_kind in paths.items()
    )
