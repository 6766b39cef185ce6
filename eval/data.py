"""Data sets of the tables that are built from public sources: `python -m eval data NAME`.

    eurlex-4.3k   laws of the European Union and their EUROVOC concepts, as XC files
    enwiki-cat    pages of the English Wikipedia of July 2019 and their categories, as XC files
    enwiki-text   such pages in the form of text8, 100 MB in one line
    bibtex-mulan, delicious-mulan
                  bookmarks and web pages with tags, in the split of mulan
    omniglot-grey drawings of characters, reduced to 28 x 28 grey values
    omniglot-28   those of Burda et al. 2016
    20-newsgroups-counts
                  messages by newsgroup, as counts of words

What is built is compared with the data that the tables were measured on, or that was built before;
those of Omniglot and the newsgroups with nothing yet.
"""

import argparse
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from embedx.errors import DataError
from embedx.runtime.atomic import replacing
from embedx.text.fetch import fetch
from embedx.text.recipes import Recipe, data_folder
from eval import (
    data_eurlex as eurlex,
    data_mulan as mulan,
    data_newsgroups as newsgroups,
    data_omniglot as omniglot,
    data_wikipedia as wikipedia,
)
from eval.data_repositories import Repository, binaries, blobs, contents, local_copy
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
    "bibtex-mulan": {
        "train.txt.gz": "b4ea0ea4064004fa7b9a83fba84563ac3cac1971462a3633deb58f5d968f8d54",
        "test.txt.gz": "8362a26a8a35e23a9da6f271ff4ed077152907cb11ee4646daf34d21cce5b32b",
        "features.txt.gz": "228aaf53fef8e30f3042e0f2fe8ec9a19e88e85403e41a8ac53424128c1b6896",
        "labels.tsv.gz": "c762e8800956cd7ca530821f4c307c1f981f9761d6d7615fce05f2d0deb7c16a",
    },
    "delicious-mulan": {
        "train.txt.gz": "005c44b460140df1b317343d71a983e59634b754be2093aac2ad624a709bd061",
        "test.txt.gz": "3e077a8c72dce2f850abfbf551dbefdb6de7bbe3d4da286ac6ea49b87183fb76",
        "features.txt.gz": "e63471d4d2cdaed7ca8e4d3732e2a771448cc8705f14c8ab8b7a2f015c83c69e",
        "labels.tsv.gz": "312cd6a65e25317d69d7e10abfac1c69376aa31173830ade6760668071ec3632",
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


def build_mulan(git: Path, folder: Path, repository: Repository) -> list[Path]:
    """The files of one of mulan's data sets."""
    name = repository.folder.rpartition("/")[2]
    names = (f"{name}.xml", f"{name}-train.arff", f"{name}-test.arff")
    files = {Path(file.path).name: file for file in blobs(git, repository)}
    xml, *parts = contents(git, [files[name] for name in names])
    attributes = mulan.attributes_of(parts[0], mulan.label_names(xml))
    paths = [
        _write(folder / f"{part}.txt.gz", mulan.xc_lines(arff, attributes))
        for part, arff in zip(mulan.PARTS, parts, strict=True)
    ]
    return paths + _write_names(folder, attributes.feature_names, attributes.label_names)


def build_omniglot(
    git: Path, folder: Path, repository: Repository = omniglot.OMNIGLOT
) -> list[Path]:
    """The files of Omniglot with grey values."""
    files = blobs(git, repository)
    archive_files = [file for file in files if Path(file.path).name in omniglot.ARCHIVES]
    archives = list(binaries(git, archive_files))
    names = omniglot.characters(archives)
    parts: dict[str, list[omniglot.Drawing]] = {"train": [], "test": []}
    for drawing in omniglot.drawings(archives):
        part = "test" if omniglot.is_to_test_on(drawing) else "train"
        parts[part].append(drawing)
    return _write_drawings(folder, parts, [*names.values()])


def build_burda(git: Path, folder: Path) -> list[Path]:
    """The files of Omniglot as Burda et al. reduced it."""
    files = blobs(git, omniglot.BURDA)
    chardata = [file for file in files if file.path.endswith("chardata.mat")]
    (content,) = binaries(git, chardata)
    return _write_drawings(folder, *omniglot.burda_parts(content))


def build_newsgroups(archive: Path, folder: Path) -> list[Path]:
    """The files of 20 newsgroups as counts of words."""
    parts, names = newsgroups.parts_of(archive)
    n_words = newsgroups.n_words_of(parts)
    paths = [
        _write(folder / f"{part}.txt.gz", newsgroups.xc_lines(messages, n_words, len(names)))
        for part, messages in parts.items()
    ]
    return [*paths, _write_label_names(folder, names)]


BUILDERS: dict[str, tuple[Repository | Recipe, Callable[[Path, Path], list[Path]]]] = {
    "eurlex-4.3k": (eurlex.EURLEX57K, build_eurlex),
    "enwiki-cat": (wikipedia.WIKIPEDIA, build_categories),
    "enwiki-text": (wikipedia.WIKIPEDIA, build_text),
    "bibtex-mulan": (mulan.BIBTEX, partial(build_mulan, repository=mulan.BIBTEX)),
    "delicious-mulan": (mulan.DELICIOUS, partial(build_mulan, repository=mulan.DELICIOUS)),
    "omniglot-grey": (omniglot.OMNIGLOT, build_omniglot),
    "omniglot-28": (omniglot.BURDA, build_burda),
    "20-newsgroups-counts": (newsgroups.ARCHIVE, build_newsgroups),
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
        "--source",
        type=Path,
        help="git directory of a clone, or the archive; by default it is cloned or downloaded",
    )
    parser.add_argument(
        "--to", type=Path, help="folder for the data set; by default where recipes find it"
    )
    options = parser.parse_args(arguments)
    source, build = BUILDERS[options.name]
    to = options.to or data_folder()
    original = options.source or _original(source, to)
    say(f"building {options.name} in {to}")
    for path in build(original, to / options.name):
        if options.name in EXPECTED:
            check(path, EXPECTED[options.name][path.name])
        print(path)
    if options.name not in EXPECTED:
        say("no checksums are known that it could be compared with")


def _original(source: Repository | Recipe, to: Path) -> Path:
    """What a data set is built from, cloned or downloaded unless it is there."""
    if isinstance(source, Repository):
        return local_copy(source, to / "repositories")
    say(f"downloading {source.urls[0]}")
    return fetch(source, to)[0]


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
    return paths + _write_names(folder, features, names)


def _write_drawings(
    folder: Path, parts: dict[str, list[omniglot.Drawing]], names: list[str]
) -> list[Path]:
    """The files of drawings: each part, and the labels with their names."""
    paths = [
        _write(folder / f"{part}.txt.gz", omniglot.xc_lines(rows, len(names)))
        for part, rows in parts.items()
    ]
    return [*paths, _write_label_names(folder, names)]


def _write_names(folder: Path, features: list[str], labels: list[str]) -> list[Path]:
    """The files of the names of features and labels."""
    lines = (f"{name}\n" for name in features)
    return [_write(folder / "features.txt.gz", lines), _write_label_names(folder, labels)]


def _write_label_names(folder: Path, names: list[str]) -> Path:
    numbered = (f"{number}\t{name}\n" for number, name in enumerate(names))
    return _write(folder / "labels.tsv.gz", numbered)


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
