"""Recipes: corpora known by name, each described by a `NAME.toml`: its content, its origin and how
to read it.

They are searched for in the working directory, in the user's configuration folder and among those
of embedx, in this order. `corpora/README.md` explains the fields.

    NAME                a recipe
    NAME-VALUE-...      with values for its placeholders, in the order in which it declares them:
                        `wikipedia-de-20240101`
    NAME:PART           another part of the same files: `one-billion-word:heldout`

For labelled data, `NAME:test` has the test rows of NAME, and `NAME:PART-test` those of `NAME:PART`.
"""

import contextlib
import functools
import glob
import importlib.util
import itertools
import json
import logging
import os
import posixpath
import re
import tomllib
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from embedx.errors import DataError, near_file, public_url
from embedx.runtime.disk import amount
from embedx.settings import Record

# The purposes of recipes, and the readers of each.
READERS_OF_KIND = {
    "text": ("text", "wikipedia"),
    "classes": ("xc", "libsvm", "fasttext", "idx", "npz"),
}
# Fields that a part has instead of those of its recipe.
PART_FIELDS = ("about", "files", "members", "labels", "label_names", "obtain", "build")
# Fields that a part does not inherit from its recipe.
PART_ONLY = ("members", "labels", "label_names", "splits")
DOWNLOAD_FIELDS = {"urls": list, "file": str, "sha256": str, "bytes": int}
# The value of a placeholder: without path separators, and without hyphens, which separate values.
VALUE = re.compile(r"\w+")
# Twenty times the longest recipe of embedx; the time of Python's parser is quadratic in the length
# of a key.
MAX_BYTES = 1 << 16
log = logging.getLogger("embedx")


@dataclass(frozen=True)
class Download:
    """One file that `embedx corpus fetch` gets.

    urls   the mirrors of the first after it
    file   its path in the data folder; "" for the name at the end of the first URL
    bytes  size of the file; 0 if unknown
    """

    urls: list[str]
    file: str = ""
    sha256: str = ""
    bytes: int = 0


@dataclass(frozen=True)
class Recipe:
    """The content of one `NAME.toml`; only `kind` and `reader` are required.

    folder       where the TOML file lies
    package      an installed Python package that holds the files
    files        alternative paths or globs: the first that exists is read
    labels       files of the labels of the rows, alternatives like `files`
    label_names  files of the names of the labels, alternatives too
    splits       files with the numbers of training and test rows, if `files` contain both
    members      glob of the members to read from an archive among `files`
    urls         of one file, the mirrors of the first after it; `sha256` and `bytes` are those of
                 that file as it is fetched
    obtain       how to get the files if they cannot be downloaded by a program
    build        the command that builds them, in a checkout of embedx
    downloads    several files, each with the fields of `Download`, instead of the one of `urls`
    unverified   the statements of the recipe that nobody has checked
    values       placeholders, with their default values
    parts        other parts of the files, by name: see PART_FIELDS
    settings     default values of TextSettings for this corpus
    """

    name: str
    folder: Path
    kind: str = "text"
    reader: str = "text"
    about: str = ""
    package: str = ""
    files: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    label_names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    members: str = ""
    urls: list[str] = field(default_factory=list)
    obtain: str = ""
    build: str = ""
    sha256: str = ""
    bytes: int = 0
    downloads: list[Record] = field(default_factory=list)
    unverified: str = ""
    cut_off: bool = False
    licence: str = ""
    citation: str = ""
    values: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Record] = field(default_factory=dict)
    settings: Record = field(default_factory=dict)

    @property
    def to_fetch(self) -> list[Download]:
        """The files to download."""
        downloads = [Download(**fields) for fields in self.downloads]
        if self.urls:
            downloads.append(Download(self.urls, sha256=self.sha256, bytes=self.bytes))
        return [
            replace(download, file=download.file or file_of_url(download.urls[0]))
            for download in downloads
        ]

    @property
    def bytes_to_fetch(self) -> int:
        """The number of bytes to download; 0 if the size of a file is unknown."""
        sizes = [download.bytes for download in self.to_fetch]
        return 0 if 0 in sizes else sum(sizes)

    @property
    def test(self) -> str:
        """The name of the test rows; "" if the recipe has none."""
        if self.splits:
            return self.name
        name, _, part = self.name.partition(":")
        test = f"{part}-test" if part else "test"
        return f"{name}:{test}" if test in self.parts else ""

    def places(self) -> list[Path]:
        """The folders in which its files are searched for."""
        if self.package:
            return _package_folders(self.package)
        return [Path(), self.folder, data_folder()]

    def files_here(self) -> list[str]:
        """The paths of its files on this machine; empty if they are missing."""
        return self._first_here(self.files)

    def labels_here(self) -> str | None:
        """The path of the file of its labels; None if the rows contain their labels.

        Raises `DataError` if the file is missing.
        """
        return self._one_here(self.labels, "the labels of its rows")

    def label_names_here(self) -> str | None:
        """The path of the names of its labels; None if it has no such file. Raises `DataError` if
        the file is missing.
        """
        return self._one_here(self.label_names, "the names of its labels")

    def is_complete(self) -> bool:
        """Whether all files that it names are on this machine."""
        named = [self.files, self.labels, self.label_names]
        return all(self._first_here(patterns) for patterns in named if patterns)

    def patterns(self) -> list[str]:
        """The paths and globs of its files and those of its parts."""
        recipes = [self, *(self.part(part) for part in self.parts)]
        return [
            pattern
            for recipe in recipes
            for pattern in (*recipe.files, *recipe.labels, *recipe.label_names)
        ]

    def _one_here(self, patterns: Sequence[str], content: str) -> str | None:
        if not patterns:
            return None
        files = self._first_here(patterns)
        if not files:
            problem = f"{patterns[0]} is not on this machine, which has {content}"
            raise DataError(self.name, None, problem, self.how_to_get(patterns[0]))
        return files[0]

    def _first_here(self, patterns: Sequence[str]) -> list[str]:
        """The files that match the first pattern with any match."""
        for place, pattern in itertools.product(self.places(), patterns):
            # ValueError: a zero byte, which is not allowed in file names
            with contextlib.suppress(ValueError):
                path = os.path.join(glob.escape(str(place)), pattern)
                files = sorted(glob.glob(path, recursive=True))
                if files:
                    return files
        return []

    def find_files(self) -> list[str]:
        """The paths of its files on this machine. Raises `DataError`, which states how to get them,
        if they are missing.
        """
        files = self.files_here()
        if not files:
            raise DataError(self.name, None, "not on this machine", self.how_to_get())
        return files

    def how_to_get(self, wanted: str = "") -> str:
        """How to get its first file, or the given one, for a message."""
        file = wanted or self.files[0]
        if self.package:
            return f"its Python package is not installed or lacks it; pip install {self.package}"
        if self.build:
            return f"make it with `{self.build}` in a checkout of embedx"
        if self.obtain:
            names = " and ".join([file, *self._files_beside()])
            place = f"put {names} into the working directory or {data_folder()}"
            return f"get it {self.obtain}, then {place}"
        downloads = self.to_fetch
        if not downloads:
            return f"put {file} into the working directory or name its path instead"
        name = self.name.partition(":")[0]
        size = ""
        if self.bytes_to_fetch:
            size = f" ({amount(self.bytes_to_fetch)})"
        return f"get it with `embedx corpus fetch {name}`{size}, or {_by_hand(downloads, file)}"

    def files_by_hand(self) -> list[str]:
        """The files that must exist so that training and testing by name work."""
        return [self.files[0], *self.labels[:1], *self._files_beside()]

    def _files_beside(self) -> list[str]:
        """The files, in addition to the first one, that training and testing by name need."""
        folder = posixpath.dirname(self.files[0])
        splits = [posixpath.join(folder, split) for split in self.splits]
        if not self.test or self.splits:
            return splits
        part = self.test.partition(":")[2]
        return [self.parts[part]["files"][0]]

    def part(self, name: str) -> "Recipe":
        """Another part of the same files. Raises `EmbedxError` if no part has that name."""
        if name not in self.parts:
            remedy = f"choose one of {', '.join(self.parts)}" if self.parts else "name it alone"
            raise DataError(self.name, None, f"has no part {name}", remedy)
        whole = vars(Recipe("", Path()))
        fields = {name: whole[name] for name in PART_ONLY} | self.parts[name]
        if fields.keys() & {"obtain", "build"}:
            own_source = {"urls": [], "downloads": [], "unverified": "", "obtain": "", "build": ""}
            fields = own_source | fields
        return replace(self, name=f"{self.name}:{name}", **fields)


def _by_hand(downloads: Sequence[Download], file: str) -> str:
    """Where to put which download so that a file of a recipe is found, for a message."""
    downloaded = {download.file: download for download in downloads}
    place = f"into the working directory or {data_folder()}"
    if file not in downloaded and len(downloads) == 1 and ".tar" in downloads[0].file:
        return f"unpack {public_url(downloads[0].urls[0])} {place}"
    download = downloaded.get(file, downloads[0])
    return f"put {download.file} of {public_url(download.urls[0])} {place}"


# The type of each field in a file.
FIELDS = {
    name: type(value)
    for name, value in vars(Recipe("", Path())).items()
    if name not in ("name", "folder")
}


def file_of_url(url: str) -> str:
    """The name of the file at a URL."""
    return posixpath.basename(urllib.parse.urlsplit(url).path)


def _package_folders(package: str) -> list[Path]:
    """The folders of an installed package, which is not imported: that would run its code."""
    top, *inner = package.split(".")
    if not all(map(str.isidentifier, (top, *inner))):
        return []
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        if spec is not None:
            return [Path(place, *inner) for place in spec.submodule_search_locations or []]
    return []


def data_folder() -> Path:
    """The folder that `embedx corpus fetch` downloads to, in which recipes look for files."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home, "embedx", "corpora")


def find_recipe(name: str) -> Recipe | None:
    """The recipe with that name; None if there is none."""
    if Path(name).name != name:
        return None
    name, colon, part = name.partition(":")
    recipe = _whole_recipe(name)
    if recipe is None or not colon:
        return recipe
    return recipe.part(part)


def _whole_recipe(name: str) -> Recipe | None:
    """The recipe with a name without a part; if the name is NAME-VALUE-..., with these values."""
    words = name.split("-")
    for n in range(len(words), 0, -1):
        values = words[n:]
        for folder in _folders():
            file = folder / f"{'-'.join(words[:n])}.toml"
            if _takes_values(file, len(values)):
                _warn_of_shadow(file)
                if not all(map(VALUE.fullmatch, values)):
                    return None
                return _load(file, name, values)
    return None


def _takes_values(file: Path, n_values: int) -> bool:
    """Whether a file is a recipe with at least `n_values` placeholders."""
    # unlike `Path.is_file`, it returns False for a name that is too long
    if not os.path.isfile(file):
        return False
    if n_values == 0:
        return True
    placeholders = _content_if_readable(file).get("values")
    return isinstance(placeholders, dict) and n_values <= len(placeholders)


@functools.cache
def _warn_of_shadow(file: Path) -> None:
    """Warn, once, of a recipe that replaces one of embedx."""
    built_in = [*_folders()][-1] / file.name
    if file.parent != built_in.parent and built_in.exists():
        log.warning(f"{file}: takes the place of the recipe {file.stem} that comes with embedx")


def recipe_names() -> list[str]:
    """The names of all recipes that can be found."""
    files = (file for folder in _folders() for file in folder.glob("*.toml"))
    # TOML files of other programs may be in the working directory: a recipe has a kind and a
    # reader.
    return sorted(
        {file.stem for file in files if {"kind", "reader"} <= _content_if_readable(file).keys()}
    )


def recipe_states() -> list[Record]:
    """Name, kind, state, bytes to download, subject and unchecked statements of each recipe that
    can be found, and of its parts.

    The state is "here" if its files exist, otherwise how they are obtained: "fetch", "package",
    "build" or "by hand".
    """
    rows = []
    for name in recipe_names():
        recipe = _whole_recipe(name)
        if recipe is not None:
            rows.append(_row(recipe))
            rows += [_row(recipe.part(part)) for part in recipe.parts]
    return rows


def _row(recipe: Recipe) -> Record:
    """The row of `listed` for a recipe."""
    if recipe.is_complete():
        state = "here"
    elif recipe.package:
        state = "package"
    elif recipe.build:
        state = "build"
    elif recipe.to_fetch and not recipe.obtain:
        state = "fetch"
    else:
        state = "by hand"
    return {
        "name": recipe.name,
        "kind": recipe.kind,
        "state": state,
        "bytes": recipe.bytes_to_fetch or None,
        "about": recipe.about,
        "unverified": recipe.unverified,
    }


def near_recipe(name: str) -> str:
    """The remedy for a name that is neither a file nor a recipe."""
    return near_file(name, "`embedx corpus list` shows the recipes", recipe_names())


def _folders() -> Iterator[Path]:
    """The folders of recipes in the order of search, that of embedx last."""
    yield Path()
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    user_folder = os.path.join(configuration, "embedx")
    # False too if the user has no home folder, or may not read it
    if os.path.isdir(user_folder):
        yield Path(user_folder)
    package = Path(__file__).parents[1]
    in_wheel = package / "_corpora"
    in_checkout = package.parent / "corpora"
    for folder in (in_wheel, in_checkout):
        if folder.is_dir():
            yield folder
            return


def _content(file: Path) -> Record:
    """The fields of a TOML file. Raises OSError, ValueError or RecursionError if it is not
    readable, or longer than a recipe may be.
    """
    # a pipe might not end
    if not os.path.isfile(file):
        raise OSError("no file")
    if os.path.getsize(file) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES:,} bytes")
    return tomllib.loads(file.read_text("utf-8-sig"))


def _content_if_readable(file: Path) -> Record:
    """The fields of a TOML file; empty if it is not readable."""
    # RecursionError: deeply nested brackets
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return _content(file)
    return {}


def _load(file: Path, name: str, first_values: list[str]) -> Recipe:
    """Load the recipe in a file, with values for its first placeholders."""
    try:
        content = _content(file)
        _check(content, FIELDS, "")
        _check_files(content, "")
        defaults = content.get("values", {})
        values = {**defaults, **dict(zip(defaults, first_values, strict=False))}
        content = json.loads(_filled(json.dumps(content), values))
        for part, fields in content.get("parts", {}).items():
            _check(fields, {field: FIELDS[field] for field in PART_FIELDS}, f"parts: {part}: ")
            _check_files(fields, f"parts: {part}: ")
        for fields in content.get("downloads", []):
            _check(fields, DOWNLOAD_FIELDS, "downloads: ")
            _check_download(fields)
        kind = content.get("kind", "")
        reader = content.get("reader", "")
        if reader not in READERS_OF_KIND.get(kind, ()):
            chosen = f"kind = {kind!r} and reader = {reader!r}"
            raise ValueError(f"{chosen}; readers of each kind are {READERS_OF_KIND}")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        problem = f"not a readable recipe ({error})"
        raise DataError(file, None, problem, "compare it with corpora/README.md") from error
    return Recipe(name=name, folder=file.parent, **content)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replace placeholders in JSON by their values; placeholders within values stay. Raises
    ValueError if the result is longer than a recipe may be.
    """
    if not values:
        return text
    for name, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"values: {name} = {value!r} is no str")
    json_of = {f"{{{name}}}": json.dumps(value)[1:-1] for name, value in values.items()}
    size = len(text) + sum(text.count(name) * len(value) for name, value in json_of.items())
    if size > 2 * MAX_BYTES:
        raise ValueError(f"with its values it is longer than {2 * MAX_BYTES:,} characters")
    pattern = re.compile("|".join(map(re.escape, json_of)))
    return pattern.sub(lambda match: json_of[match[0]], text)


def _check(content: Any, kinds: Mapping[str, type], where: str) -> None:
    """Raise ValueError if these are not the fields of a recipe, a part or a download."""
    if not isinstance(content, dict):
        raise ValueError(f"{where}no table")
    for name, value in content.items():
        if name not in kinds:
            raise ValueError(f"{where}unknown field {name}; choose among {', '.join(kinds)}")
        _check_type(name, value, kinds[name], where)


def _check_type(name: str, value: Any, kind: type, where: str) -> None:
    """Raise ValueError if the value of a field has another type."""
    item_kind = dict if name == "downloads" else str
    is_right = isinstance(value, kind)
    if is_right and isinstance(value, list):
        is_right = all(isinstance(item, item_kind) for item in value)
    if not is_right:
        wanted = kind.__name__
        if kind is list:
            wanted = "list of tables" if item_kind is dict else "list of strings"
        raise ValueError(f"{where}{name} = {value!r} is no {wanted}")


def _check_files(content: Record, where: str) -> None:
    """Raise ValueError if a recipe or a part of one names no files."""
    if not content.get("files"):
        raise ValueError(f'{where}no files; add files = ["PATH"]')


def _check_download(fields: Record) -> None:
    """Raise ValueError if a download has no address, or would lie outside the data folder."""
    if not fields.get("urls"):
        raise ValueError('downloads: no urls; add urls = ["https://..."]')
    path = PurePosixPath(fields.get("file", ""))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"downloads: file = {str(path)!r} is outside the data folder")
