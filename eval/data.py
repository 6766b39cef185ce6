"""Data sets of the tables that are built from public sources: `python -m eval data NAME`.

    eurlex-4.3k   laws of the European Union and their EUROVOC concepts, as XC files
    enwiki-cat    pages of the English Wikipedia of July 2019 and their categories, as XC files
    enwiki-text   such pages in the form of text8, 100 MB in one line
    bibtex-lsml   bookmarks with tags, in a random split
    bibtex-mulan, delicious-mulan
                  bookmarks and web pages with tags, in the split of mulan
    omniglot      drawings of characters, reduced to 28 x 28 black or white pixels
    omniglot-grey those drawings, reduced to grey values
    omniglot-28   those of Burda et al. 2016
    20-newsgroups-counts
                  messages by newsgroup, as counts of words
    word-pairs    similarities of words by people: MTurk-287, RG-65 and YP-130
    blogcatalog-graph, wikipedia-pos-graph, ca-astroph-graph
                  friendships of bloggers with their interests, words and their neighbours with
                  parts of speech, and authors of articles with each other
    diginetica-sessions
                  items that visitors of a shop looked at

What is built is compared with the data that the tables were measured on, or that was built before;
omniglot-grey, omniglot-28 and the newsgroups with nothing yet.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from embedx.errors import DataError
from embedx.runtime.atomic import replacing
from embedx.text.fetch import fetch
from embedx.text.recipes import Recipe, data_folder
from eval import (
    data_eurlex as eurlex,
    data_graphs as graphs,
    data_lsml as lsml,
    data_mulan as mulan,
    data_newsgroups as newsgroups,
    data_omniglot as omniglot,
    data_sessions as sessions,
    data_wikipedia as wikipedia,
    datasets,
    word_tests,
)
from eval.data_repositories import (
    Repository,
    binaries,
    blobs,
    content_of,
    contents,
    local_copy,
)
from eval.data_xc import Documents, features_of, xc_file
from eval.experiment import say

TEXT_BYTES = 100_000_000
WORD_PAIRS = Repository(
    "https://github.com/mfaruqui/eval-word-vectors",
    "94b3dd9fdbac7ed08dbee7179cd5ee464acf0594",
    "data/word-sim",
)
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
    "bibtex-lsml": {
        "train.txt.gz": "d22252be1238f25c911e17d7bf77aafde7a26cb194f3aa7b677a014b0a69dc5f",
        "test.txt.gz": "eae7c361decc2aed277b72bae9447a1c002ccce4a7b14e0b871e3482171eccd8",
    },
    "omniglot": {
        "train.txt.gz": "6c9a85ac3ff5365ccdcad15ccb4a2cd714cf831453fe420d2feb5d44efecf124",
        "test.txt.gz": "1a8e39799cca3604a73515f9d42e8d85076e209c9fb11754f2f4f48d25d8cdfc",
        "labels.tsv.gz": "9f7e50c463081e38aaef690caa6b312cf31bb038b1d76481062a0e206ab89060",
    },
    "word-pairs": {
        "EN-MTurk-287.txt": "a9ae3a9decb75a9700fe0cf18b048c1344774d9f40e0196baf8e34d4cd9d1ce5",
        "EN-RG-65.txt": "c243f3a91c3f5d8cf67f21a67f6fb80bde8b6bb060851a6a48e6f2d68ec98c9f",
        "EN-YP-130.txt": "7643fdbc6158c3424061e2cba450c71285767266ff9f3db947bfc1f1f5ce67ab",
    },
    "blogcatalog-graph": {
        "edges.txt.gz": "9856c2e495aa0bd75290f7253b3408dee1c70b2b1cd189199e6013b98f6f66db",
        "labels.txt.gz": "1b4142d3e6fd88854569a76062ed73a5020dd15d49f989755b56d29c9dea31b1",
    },
    "wikipedia-pos-graph": {
        "edges.txt.gz": "8d927f6ad867f4a4f80ef4aefcba59cef98b3325c4241db7ccaa88545e75d3a5",
        "labels.txt.gz": "2d09b80eb23a9dc9471a3d2253c51f911a33ab93f66b1b40ebe95c25d84f439b",
    },
    "ca-astroph-graph": {
        "edges.txt.gz": "2f0003caefb001261268464e244f561c208400345c58d1c027575672060d0f82",
    },
    "diginetica-sessions": {
        "train.txt.gz": "d58e465fdacfe2592b414228a771ec4aa5c43c968c61bb25d2a7cc1d2de8c146",
        "test.txt.gz": "c676af9175f6f4f4484f92e26feb8f8fbe7eea950c128968b01ceddc3f51034e",
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


def build_lsml(git: Path, folder: Path) -> list[Path]:
    """The files of Bibtex in LSML's split."""
    files = lsml.xc_files(content_of(git, lsml.BIBTEX))
    return [_write(folder / f"{part}.txt.gz", lines) for part, lines in files.items()]


def build_omniglot(
    git: Path, folder: Path, repository: Repository = omniglot.OMNIGLOT
) -> list[Path]:
    """The files of Omniglot with grey values."""
    files = blobs(git, repository)
    archives = [file for file in files if Path(file.path).name in omniglot.ARCHIVES]
    return _write_images(folder, omniglot.images_in(binaries(git, archives)))


def build_reduced_omniglot(git: Path, folder: Path) -> list[Path]:
    """The files of Omniglot in black and white."""
    files = [file for file in blobs(git, omniglot.REDUCED) if file.path.endswith(".png")]
    paths = [file.path for file in files]
    return _write_images(folder, zip(paths, binaries(git, files), strict=True))


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


def build_word_pairs(git: Path, folder: Path) -> list[Path]:
    """The files of word pairs, as they are."""
    files = {Path(file.path).name: file for file in blobs(git, WORD_PAIRS)}
    chosen = [files[name] for name in word_tests.POOLED.values()]
    paths = [folder / Path(file.path).name for file in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, binaries(git, chosen), strict=True):
        with replacing(path) as out:
            out.write(content)
    return paths


def build_blogcatalog(git: Path, folder: Path) -> list[Path]:
    """The files of the graph of BlogCatalog."""
    return _write_graph(folder, *graphs.of_mat(content_of(git, graphs.BLOGCATALOG)))


def build_wikipedia_pos(git: Path, labelled: Path, folder: Path) -> list[Path]:
    """The files of the graph of Wikipedia's words: edges of one repository, and labels of another
    that numbers the nodes otherwise.
    """
    edges = graphs.edges_in(content_of(git, graphs.WIKIPEDIA).decode(), first=1)
    files = {Path(file.path).name: file for file in blobs(labelled, graphs.WIKIPEDIA_LABELLED)}
    chosen = [files[name] for name in ("wikipedia.ungraph", "wikipedia.cmty")]
    same_edges, labels = contents(labelled, chosen)
    numbers = graphs.numbers_in(edges, graphs.edges_in(same_edges))
    renumbered = [(numbers[node], label) for node, label in graphs.labels_in(labels)]
    return _write_graph(folder, edges, renumbered)


def build_ca_astroph(git: Path, folder: Path) -> list[Path]:
    """The file of the graph of authors."""
    edges = graphs.edges_in(content_of(git, graphs.CA_ASTROPH).decode())
    return _write_graph(folder, edges)


def build_diginetica(git: Path, folder: Path) -> list[Path]:
    """The files of sessions."""
    files = {Path(file.path).name: file for file in blobs(git, sessions.DIGINETICA)}
    chosen = [files[name] for name in (sessions.TRAINING, sessions.TEST)]
    training, test = map(sessions.unpickled, binaries(git, chosen))
    parts = {"train": training, "test": sessions.whole_sessions(*test)}
    return [
        _write(folder / f"{part}.txt.gz", sessions.session_lines(rows))
        for part, rows in parts.items()
    ]


# By name the sources, and what builds the files in a folder from clones or archives of these.
BUILDERS: dict[str, tuple[Sequence[Repository | Recipe], Callable[..., list[Path]]]] = {
    "eurlex-4.3k": ([eurlex.EURLEX57K], build_eurlex),
    "enwiki-cat": ([wikipedia.WIKIPEDIA], build_categories),
    "enwiki-text": ([wikipedia.WIKIPEDIA], build_text),
    "bibtex-lsml": ([lsml.BIBTEX], build_lsml),
    "bibtex-mulan": ([mulan.BIBTEX], partial(build_mulan, repository=mulan.BIBTEX)),
    "delicious-mulan": ([mulan.DELICIOUS], partial(build_mulan, repository=mulan.DELICIOUS)),
    "omniglot": ([omniglot.REDUCED], build_reduced_omniglot),
    "omniglot-grey": ([omniglot.OMNIGLOT], build_omniglot),
    "omniglot-28": ([omniglot.BURDA], build_burda),
    "word-pairs": ([WORD_PAIRS], build_word_pairs),
    "blogcatalog-graph": ([graphs.BLOGCATALOG], build_blogcatalog),
    "wikipedia-pos-graph": ([graphs.WIKIPEDIA, graphs.WIKIPEDIA_LABELLED], build_wikipedia_pos),
    "ca-astroph-graph": ([graphs.CA_ASTROPH], build_ca_astroph),
    "diginetica-sessions": ([sessions.DIGINETICA], build_diginetica),
    "20-newsgroups-counts": ([newsgroups.ARCHIVE], build_newsgroups),
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
        action="append",
        type=Path,
        help="git directory of a clone, or the archive, once for each source; by default they are"
        " cloned or downloaded",
    )
    parser.add_argument(
        "--to", type=Path, help="folder for the data set; by default where recipes find it"
    )
    options = parser.parse_args(arguments)
    sources, build = BUILDERS[options.name]
    if options.source and len(options.source) != len(sources):
        addresses = ", ".join(_address(source) for source in sources)
        parser.error(f"--source: {options.name} is built from {addresses}, in this order")
    to = options.to or data_folder()
    originals = options.source or [_original(source, to) for source in sources]
    say(f"building {options.name} in {to}")
    for path in build(*originals, to / options.name):
        if options.name in EXPECTED:
            check(path, EXPECTED[options.name][path.name])
        print(path)
    if options.name not in EXPECTED:
        say("no checksums are known that it could be compared with")


def _original(source: Repository | Recipe, to: Path) -> Path:
    """What a data set is built from, cloned or downloaded unless it is there."""
    if isinstance(source, Repository):
        return local_copy(source, to / "repositories")
    say(f"downloading {_address(source)}")
    return fetch(source, to)[0]


def _address(source: Repository | Recipe) -> str:
    return source.url if isinstance(source, Repository) else source.urls[0]


def check(path: Path, expected: str) -> None:
    """Raise `DataError` if a file is not the one that the tables were measured on."""
    _, sha256 = datasets.size_and_hash(path)
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


def _write_images(folder: Path, images: Iterable[tuple[str, bytes]]) -> list[Path]:
    """The files of drawings, given by path and content: split by drawer."""
    parts: dict[str, list[omniglot.Drawing]] = {"train": [], "test": []}
    characters: dict[int, str] = {}
    for path, content in images:
        drawing = omniglot.drawing_of(path, content)
        part = "test" if omniglot.is_to_test_on(drawing) else "train"
        parts[part].append(drawing)
        characters[drawing.character] = omniglot.character_of(path)
    return _write_drawings(folder, parts, [characters[number] for number in sorted(characters)])


def _write_drawings(
    folder: Path, parts: dict[str, list[omniglot.Drawing]], names: list[str]
) -> list[Path]:
    """The files of drawings: each part, and the labels with their names."""
    paths = [
        _write(folder / f"{part}.txt.gz", omniglot.xc_lines(rows, len(names)))
        for part, rows in parts.items()
    ]
    return [*paths, _write_label_names(folder, names)]


def _write_graph(
    folder: Path, edges: Iterable[graphs.Edge], labels: Sequence[tuple[int, int]] = ()
) -> list[Path]:
    """The files of a graph: its edges, and the labels of its nodes if it has any."""
    paths = [_write(folder / "edges.txt.gz", graphs.edge_lines(edges))]
    if labels:
        paths.append(_write(folder / "labels.txt.gz", graphs.label_lines(labels)))
    return paths


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
