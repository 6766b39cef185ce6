"""embedx's own model folder, from vectors of other programs: plain arrays, memory-mapped when they
are loaded.

It holds the chosen vectors alone: it can be queried, but not trained on or tested on held-out text.
`embedx.vectors.model` reads it.
"""

from pathlib import Path

from embedx.storage.folder import save as save_folder
from embedx.storage.replacement import files_of
from embedx.vectors.formats.contract import Format, Table


def owns(folder: Path) -> bool:
    """Whether all in the folder belongs to a model."""
    files = set(files_of(folder))
    return bool(files) and {path.name for path in folder.iterdir()} <= files


def write(path: Path, table: Table) -> None:
    """Write the folder, without counts where words are not sorted by them, as those of a model
    are.
    """
    counts = table.counts
    if counts is not None and (counts[1:] > counts[:-1]).any():
        counts = None
    facts = {
        name: value
        for name, value in table.model.facts.items()
        if name not in ("version", "created")
    }
    save_folder(
        path,
        task="skipgram",
        names={"vocabulary": (list(table.words), counts)},
        arrays={"input": table.rows},
        settings=table.model.settings,
        facts=facts,
    )


MODEL_FOLDER = Format(
    name="embedx",
    meaning="a model folder with the vectors only, memory-mapped when loaded",
    programs="embedx, numpy.load of its .npy",
    suffixes=(".embedx",),
    write=write,
    owns=owns,
)
