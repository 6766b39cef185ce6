"""Data sets of the tables that are built from public repositories: `python -m eval data NAME`.

    eurlex-4.3k   laws of the European Union and their EUROVOC concepts, as XC files
    enwiki-cat    pages of the English Wikipedia of July 2019 and their categories, as XC files
    enwiki-text   such pages in the form of text8, 100 MB in one line

What is built is compared with the data that the tables were measured on.
"""

import argparse
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from embedx.errors import DataError
from embedx.runtime.atomic import replacing
from embedx.text.recipes import data_folder
from eval import data_eurlex as eurlex, data_wikipedia as wikipedia
from eval.data_repositories import Repository, blobs, contents, local_copy
from eval.data_xc import Documents, features_of, xc_file
from eval.experiment import say

TEXT_BYTES = 100_000_000
# SHA-256 of the unpacked files that the tables were measured on.
EXPECTED = {
    "eurlex-4.3k": {
        "train.txt.gz": "d624b086c2cb0e355a285dfc9f026ae979560f165a5f5e0203bb49ee31b955a4",
        "dev.txt.gz": "eb95cab3bbb68634a1438bc190d9f77a1f48d38cbe05160e598b999f7e1a2fb3",
        "test.txt.gz": "2f7e5f274bff819035e129a9a4b111c08d385ed70178660680c61fc28e635173",
        "features.txt.gz": "c7f899b98a08367c92b3f2ff6f9adacc6b3e7637a66ec3ecdb8062aabf94cce3",
        "labels.tsv.gz": "0d0fc7eed4024636c3dfc49562e2926cd57b658463a733cabd575560018730a2",
    },
    "enwiki-cat": {
        "train.txt.gz": "e7a3c8630f9ad7dee1e585585af641f3df667d67c3d363c7764da87327ebd32d",
        "test.txt.gz": "2a08ec4da1014517c0d999e3e7677c35d6018eccdec0f8b6b5110234cc7b5eb2",
        "features.txt.gz": "09da29ca6e0ab3beec62473e2b3e8da36ffb849467e26a7faffdf8ed2cf28544",
        "labels.tsv.gz": "31c2e296bf03216a43724c9b35ab9ecd09c9eefc2e6df70aca9e23632d0c4407",
    },
    "enwiki-text": {
        "enwiki-20190720-s1.text8.gz": (
            "4d001fe0816d67a87a4906f6b93dcdbc96cc293bae76597043491487b824b028"
        ),
    },
}


# ---- what is built


def build_eurlex(git: Path, folder: Path) -> list[Path]:
    """The files of EURLex-4.3K."""
    files = blobs(git, eurlex.EURLEX57K)
    laws = eurlex.laws(files)
    documents = eurlex.documents_of(laws, contents(git, laws))
    concepts = eurlex.concepts_of(documents)
    described = [file for file in files if file.path.endswith(eurlex.DESCRIPTORS)]
    (descriptors,) = contents(git, described)
    names = eurlex.described(concepts, json.loads(descriptors))
    features = features_of(documents, n_features=5_000, max_share=0.4, by_name=False)
    return _write_xc(folder, documents, eurlex.PARTS, features, concepts, names)


def build_categories(git: Path, folder: Path) -> list[Path]:
    """The files of enwiki-cat."""
    pages = blobs(git, wikipedia.WIKIPEDIA)
    documents = wikipedia.categorised(pages, contents(git, pages))
    categories = sorted({category for row in documents.rows for category in row.labels})
    features = features_of(documents, n_features=50_000, max_share=0.3, by_name=True)
    return _write_xc(folder, documents, ("train", "test"), features, categories, categories)


def build_text(git: Path, folder: Path) -> list[Path]:
    """The file of enwiki-text."""
    pages = wikipedia.training_pages(blobs(git, wikipedia.WIKIPEDIA))
    text = wikipedia.text8(contents(git, pages), TEXT_BYTES)
    return [_write(folder / "enwiki-20190720-s1.text8.gz", text)]


BUILDERS: dict[str, tuple[Repository, Callable[[Path, Path], list[Path]]]] = {
    "eurlex-4.3k": (eurlex.EURLEX57K, build_eurlex),
    "enwiki-cat": (wikipedia.WIKIPEDIA, build_categories),
    "enwiki-text": (wikipedia.WIKIPEDIA, build_text),
}


# ---- the command


def main(arguments: list[str]) -> None:
    """Build a data set and compare it with the one that was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m eval data",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=BUILDERS)
    parser.add_argument(
        "--source", type=Path, help="git directory of a clone; by default it is cloned"
    )
    parser.add_argument(
        "--to", type=Path, help="folder for the data set; by default where recipes find it"
    )
    options = parser.parse_args(arguments)
    repository, build = BUILDERS[options.name]
    to = options.to or data_folder()
    git = options.source or local_copy(repository, to / "repositories")
    say(f"building {options.name} in {to}")
    for path in build(git, to / options.name):
        check(path, EXPECTED[options.name][path.name])
        print(path)


def check(path: Path, expected: str) -> None:
    """Raise `DataError` if a file is not the one that the tables were measured on."""
    with gzip.open(path) as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    if sha256 != expected:
        problem = f"sha256 of its content is {sha256} instead of {expected}"
        remedy = "numbers measured on it cannot be compared with those of the tables"
        raise DataError(path, None, problem, remedy)


def _write_xc(
    folder: Path,
    documents: Documents,
    parts: Iterable[str],
    features: list[str],
    labels: list[str],
    names: list[str],
) -> list[Path]:
    """The files of labelled documents: each part, the features, and the labels with their names."""
    paths = [
        _write(folder / f"{part}.txt.gz", xc_file(documents, part, features, labels))
        for part in parts
    ]
    paths.append(_write(folder / "features.txt.gz", (f"{word}\n" for word in features)))
    numbered = (f"{number}\t{name}\n" for number, name in enumerate(names))
    paths.append(_write(folder / "labels.tsv.gz", numbered))
    return paths


def _write(path: Path, lines: Iterable[str]) -> Path:
    """The file with these lines, packed; the same lines make the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        replacing(path) as out,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out, mtime=0) as packed,
    ):
        for line in lines:
            packed.write(line.encode())
    return path
