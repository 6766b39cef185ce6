"""The sources to read, from the names that the user gives, in the same order.

Nothing is opened here, and numba is not imported, so that help and error messages are quick.
"""

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from embedx.errors import DataError, SettingError, public_url
from embedx.settings import Options, Record
from embedx.text.program_folders import kind_of, listed
from embedx.text.recipes import Recipe, find_recipe, near_recipe
from embedx.text.settings import TextSettings

STANDARD_INPUT = "-"
# Names of Wikimedia's dumps: "enwiki-20240301-pages-articles1.xml-p1p41242.bz2".
# Atomic groups match each part at its first place only, so that the time is linear.
DUMP_NAME = re.compile(r"(?>.*?\b(?>\w*?wik)\w++-).*pages-(?:articles|meta)|(?>.*?wik).*\.xml\b")

# Reader by suffix, before the suffix of a compression. With other suffixes the options decide.
READER_OF_SUFFIX = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "table",
    ".tsv": "table",
    ".parquet": "table",
    ".pq": "table",
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
LABELLED_ROWS = "rows"  # reader of labelled data
EDGES = "edges"  # reader of the edges of a graph
ARCHIVE_NAME = re.compile(r".*\.(zip|tar|tgz|tbz2?|txz|tar\.(gz|bz2|xz|zst))", re.IGNORECASE)
OF_ARCHIVE = re.compile(r"(.+):([^:]+)", re.DOTALL)  # ARCHIVE:PATTERN
ALL_MEMBERS = "*"
# Files that the kernel generates when they are read: content changes, size and times do not.
KERNEL_FILES = ("/proc/", "/sys/")


@dataclass(frozen=True)
class Source:
    """One file, URL or standard input."""

    name: str  # as the user gave it, for messages
    # "text", "wikipedia", "json", "table", "rows", "edges", or "any" if the name does not tell
    reader: str
    # Identifies the content for the token cache (for a URL, its name); None: not cached.
    fingerprint: Record | None
    location: str = ""  # path or URL to open, if it is not the name
    cut_off: bool = False  # a dump that is known to be incomplete
    members: str = ""  # glob of the members to read of an archive; "" for other files
    # The folder that the user named, if the file was found in one: it is skipped if it is no text.
    folder: str = ""
    # Models, checkpoints and caches that were left out of that folder, for a message.
    left_out: str = ""

    @property
    def address(self) -> str:
        return self.location or self.name

    @property
    def size(self) -> int | None:
        """Size in bytes as stored; None if it is not known before reading."""
        return self.fingerprint.get("size") if self.fingerprint else None

    def format(self, settings: TextSettings) -> str:
        """The format to read: "text", "wikipedia", "json" or "table". Dumps without a telling name
        are "text" here; their beginning is recognised later.
        """
        if settings.format == "text" and self.reader not in (LABELLED_ROWS, EDGES):
            return "text"
        if self.reader != "any":
            return self.reader
        if settings.json_field is not None:
            return "json"
        return "table" if settings.column is not None else "text"

    def has_sentences(self, settings: TextSettings) -> bool:
        """Whether tokens are used as they are, so that bytes other than white space end them."""
        if self.reader == EDGES:
            return True
        return settings.tokenizer == "none" and self.format(settings) in ("json", "table")


def find_sources(corpora: Sequence[str]) -> list[Source]:
    """The sources of paths, globs, directories, URLs, `-` and recipes; a source that is named twice
    is read once.
    """
    if not corpora:
        remedy = "name a file, a directory, a URL, a recipe, or - for standard input"
        raise DataError("corpora", None, "none", remedy)
    sources: dict[str, Source] = {}
    for corpus in corpora:
        for source in _sources_of_name(corpus):
            key = source.address if is_url(source.address) else os.path.realpath(source.address)
            sources.setdefault(f"{key}:{source.members}" if source.members else key, source)
    return list(sources.values())


def recipe_defaults(corpora: Sequence[str]) -> Record:
    """The default `TextSettings` of recipes and Wikipedia dumps, if those of all corpora agree."""
    defaults = [_defaults_of(corpus) for corpus in corpora]
    return defaults[0] if defaults and all(d == defaults[0] for d in defaults) else {}


def text_defaults(corpora: Sequence[str], options: Options) -> Record:
    """The default `TextSettings` of the corpora, given the options: those of `recipe_defaults`, and
    format text for standard input if a tokenizer is given.
    """
    defaults = recipe_defaults(corpora)
    has_fields = options.get("json_field") is not None or options.get("column") is not None
    if options.get("tokenizer") is not None and not has_fields and set(corpora) == {STANDARD_INPUT}:
        defaults = defaults | {"format": "text"}
    return defaults


def check_formats(sources: Sequence[Source], settings: TextSettings) -> None:
    """Raise `EmbedxError` if a field or column is set, but no source can have one."""
    formats = {source.format(settings) for source in sources}
    for setting, value, format, what in (
        ("json_field", settings.json_field, "json", "JSON Lines"),
        ("column", settings.column, "table", "a table"),
    ):
        if value is not None and format not in formats:
            problem = f"no corpus has the suffix of {what}"
            remedy = "rename it, or give it on standard input, as in: `embedx train - ... < FILE`"
            raise SettingError(setting, value, problem, remedy)


def is_url(name: str) -> bool:
    return "://" in name


def url_fingerprint(url: str) -> Record:
    """The fingerprint of a URL, without its secrets."""
    shown = public_url(url)
    if shown == url:
        return {"url": url}
    return {"url": shown, "sha256": hashlib.sha256(url.encode()).hexdigest()}


def _sources_of_name(corpus: str) -> list[Source]:
    """What a name stands for: standard input, a URL, a recipe, a folder, a file, members of an
    archive or the files that match a pattern, in this order. Raises `DataError` if it is none.
    """
    if corpus == STANDARD_INPUT:
        return [Source(corpus, "any", None)]
    if is_url(corpus):
        members = ALL_MEMBERS if ARCHIVE_NAME.fullmatch(corpus.partition("?")[0]) else ""
        source = Source(
            public_url(corpus), reader_of(corpus), url_fingerprint(corpus), location=corpus
        )
        return [replace(source, members=members)]
    if recipe := recipe_meant(corpus):
        return _of_recipe(recipe)
    if os.path.isdir(corpus):
        return _in_directory(corpus)
    if os.path.lexists(corpus):  # broken and circular links too, for a message that explains them
        return [_file(corpus)]
    named = OF_ARCHIVE.fullmatch(corpus)
    if named and ARCHIVE_NAME.fullmatch(named[1]) and os.path.isfile(named[1]):
        return [_file(named[1], named[2])]
    if glob.has_magic(corpus):
        matches = _matches(corpus)
        if matches:
            return matches
        remedy = "check the pattern with ls, and quote it if it has spaces"
        raise DataError(corpus, None, "no file matches", remedy)
    remedy = f"write $(cat {corpus[1:]})" if corpus.startswith("@") else near_recipe(corpus)
    raise DataError(corpus, None, "no such file or directory, and no recipe of that name", remedy)


def _matches(pattern: str) -> list[Source]:
    """The files that match a glob, except those in models, checkpoints and caches that only its
    wildcards match.
    """
    parts = Path(pattern).parts
    n_literal = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    kinds: dict[Path, str] = {}

    def is_ours(folder: Path) -> bool:
        if folder not in kinds:
            kinds[folder] = kind_of(folder, os.listdir(folder))
        return bool(kinds[folder])

    sources = []
    for path in sorted(glob.glob(pattern, recursive=True)):
        folders = [parent for parent in Path(path).parents if len(parent.parts) > n_literal]
        if os.path.isfile(path) and not any(map(is_ours, folders)):
            sources.append(_file(path))
    return sources


def recipe_meant(corpus: str) -> Recipe | None:
    """The recipe of that name; None if another file has the name. The recipe's own fetched file may
    have it.
    """
    recipe = None if is_url(corpus) else find_recipe(corpus)
    return recipe if recipe and (corpus in recipe.files or not os.path.exists(corpus)) else None


def _in_directory(folder: str) -> list[Source]:
    """The files of a directory and its subdirectories, in order of their names, without hidden
    files and without models, checkpoints and caches of this program.
    """
    paths = []
    left_out = []
    for parent, folders, files in os.walk(folder):
        if kind := kind_of(Path(parent), files):
            left_out.append((kind, parent))
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [os.path.join(parent, name) for name in sorted(files) if not name.startswith(".")]
    # Sockets and pipes are no text.
    paths = [path for path in paths if os.path.isfile(path) or not os.path.exists(path)]
    if not paths and left_out:
        problem = f"nothing but what embedx writes: {listed(left_out)}"
        raise DataError(folder, None, problem, "name the folder that holds the text")
    if not paths:
        problem = "a directory without files"
        raise DataError(folder, None, problem, "name the one that holds the text")
    not_read = listed(left_out)
    return [replace(_file(path), folder=folder, left_out=not_read) for path in paths]


def _file(path: str, members: str = ALL_MEMBERS) -> Source:
    """The source of a file; of an archive, the members that match the pattern."""
    if not ARCHIVE_NAME.fullmatch(path):
        members = ""
    return Source(path, reader_of(path), _fingerprint(path, members), members=members)


def _fingerprint(path: str, members: str) -> Record | None:
    """What tells a file and its content from others; None for a pipe. Raises `DataError` for one
    that cannot be opened.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        problem = f"cannot be opened ({error.strerror})"
        raise DataError(path, None, problem, "repair or remove it") from error
    if not os.path.isfile(path):  # a pipe, such as <(zcat ...), can be read only once
        return None
    real_path = os.path.realpath(path)
    if real_path.startswith(KERNEL_FILES):
        return None
    fingerprint = {"path": real_path, **file_identity(status)}
    return fingerprint | {"members": members} if members else fingerprint


def file_identity(status: os.stat_result) -> Record:
    """Facts that differ for another file of the same name, and for other content.

    Size and modification time are not enough: `cp -p` and archives with fixed dates preserve both.
    The device is left out, because a network file system gets a new number at each mount.
    """
    return {
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,
        "inode": status.st_ino,
    }


def current_fingerprint(source: Source) -> Record | None:
    """The current fingerprint of a source; if it differs, the source changed while it was read."""
    if source.fingerprint is None or "path" not in source.fingerprint:
        return source.fingerprint
    return _fingerprint(source.address, source.members) if os.path.exists(source.address) else None


def _of_recipe(recipe: Recipe) -> list[Source]:
    """The files of a recipe. Raises `DataError` if they are labelled data."""
    if recipe.kind != "text":
        remedy = f"train a classifier on it with `embedx classify {recipe.name}`"
        raise DataError(recipe.name, None, "labelled data, not text", remedy)
    files = [_file(path, recipe.members or ALL_MEMBERS) for path in recipe.find_files()]
    name = recipe.name if len(files) == 1 else ""
    return [
        replace(
            file,
            name=name or file.name,
            location=file.name,
            reader=recipe.reader,
            cut_off=recipe.cut_off,
        )
        for file in files
    ]


def described(corpus: str) -> Record:
    """The facts of a corpus that are known without reading it: for a recipe, its contents and the
    places of its files.
    """
    if recipe := recipe_meant(corpus):
        stated = {name: value for name, value in vars(recipe).items() if value and name != "folder"}
        is_part = ":" in recipe.name
        if is_part:
            stated.pop("parts", None)
        elif recipe.parts:
            stated["parts"] = [f"{recipe.name}:{part}" for part in recipe.parts]
        here = recipe.files_here()
        if not here:
            stated["missing"] = recipe.files_by_hand()
            stated["searched"] = [str(place.absolute()) for place in recipe.places()]
        return {**stated, "recipe": str(recipe.folder), "here": here}
    sources = [
        {"name": source.name, "reader": source.reader, "bytes": source.size}
        for source in _sources_of_name(corpus)
    ]
    return {"name": corpus, "sources": sources, "settings": _defaults_of(corpus)}


def reader_of(name: str) -> str:
    """The reader of a file, by its name."""
    name = name.rsplit("/", 1)[-1]
    if DUMP_NAME.match(name):
        return "wikipedia"
    stem, suffix = os.path.splitext(name.lower())
    return READER_OF_SUFFIX.get(
        os.path.splitext(stem)[1] if suffix in COMPRESSED else suffix, "any"
    )


def _defaults_of(corpus: str) -> Record:
    """The settings that a corpus has by default."""
    if recipe := recipe_meant(corpus):
        return recipe.settings
    return {"tokenizer": "words", "lowercase": True} if reader_of(corpus) == "wikipedia" else {}


def total_size(sources: Iterable[Source]) -> int | None:
    """Total bytes to read, as stored; None if the size of a source is unknown."""
    sizes = [source.size for source in sources]
    return None if None in sizes else sum(size for size in sizes if size is not None)
