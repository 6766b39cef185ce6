"""Recipes: corpora known by name, each a `NAME.toml` that says what it is, where it comes from and
how to read it.

They are looked for in the working directory, in the user's configuration folder and among those
that come with embedx, in this order. `corpora/README.md` explains the fields.

    NAME                a recipe
    NAME-VALUE-...      with values for its placeholders, in the order in which it declares them:
                        `wikipedia-de-20240101`
    NAME:PART           another part of the same files: `one-billion-word:heldout`
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from embedx.errors import DataError, near_file
from embedx.settings import Record

# what a recipe is for, and the readers of each
KINDS = {"text": ("text", "wikipedia"), "classes": ("xc", "idx")}
# Fields that a part has beside those of its recipe.
PART_FIELDS = ("about", "files", "members")
QUERY_SEPARATOR = re.compile("[&;]")
# what may stand for a placeholder: no path, and no hyphen, which separates them
VALUE = re.compile(r"\w+")
# twenty times the longest of ours; Python's parser takes time with the square of a key's length
MAX_BYTES = 1 << 16
log = logging.getLogger("embedx")


@dataclass(frozen=True)
class Recipe:
    """The content of one `NAME.toml`; only `kind` and `reader` are required."""

    name: str
    folder: Path  # where the TOML file lies
    kind: str = "text"
    reader: str = "text"
    about: str = ""
    package: str = ""  # an installed Python package that holds the files
    # paths or globs, alternatives: the first that is there is read
    files: list[str] = field(default_factory=list)
    # files of the numbers of the rows to train on and to test on, where `files` hold both
    splits: list[str] = field(default_factory=list)
    members: str = ""  # which members of an archive among `files` are read, a glob
    urls: list[str] = field(default_factory=list)  # of one file, the mirrors of the first after it
    obtain: str = ""  # how to get the files where no program can
    sha256: str = ""  # of the file as fetched
    cut_off: bool = False
    licence: str = ""
    citation: str = ""
    # placeholders and what stands for them unless the name says otherwise
    values: dict[str, str] = field(default_factory=dict)
    # other parts of the files, by name: see PART_FIELDS
    parts: dict[str, Record] = field(default_factory=dict)
    settings: Record = field(default_factory=dict)  # default values of TextSettings for this corpus

    @property
    def download(self) -> str:
        """The name of the file that is fetched; "" if none is."""
        return posixpath.basename(urllib.parse.urlsplit(self.urls[0]).path) if self.urls else ""

    def files_here(self) -> list[str]:
        """Where its files are on this machine, none if they are not."""
        places = [Path(), self.folder, data_folder()]
        if self.package:
            places = _package_folders(self.package)
        for place, pattern in itertools.product(places, self.files):
            # raised for a zero byte, which no file has in its name
            with contextlib.suppress(ValueError):
                path = os.path.join(glob.escape(str(place)), pattern)
                files = sorted(glob.glob(path, recursive=True))
                if files:
                    return files
        return []

    def find_files(self) -> list[str]:
        """Where its files are on this machine. Raises `DataError`, which says how to get them, if
        they are not.
        """
        files = self.files_here()
        if files:
            return files
        if self.package:
            remedy = f"its Python package is not installed or lacks it; pip install {self.package}"
        elif self.obtain:
            remedy = f"get it {self.obtain}, then put {self.files[0]} into the working directory"
        elif self.urls:
            where = (
                f"put {self.download} of {public_url(self.urls[0])} into the working directory or"
                f" {data_folder()}"
            )
            remedy = f"get it with `embedx corpus fetch {self.name}`, or {where}"
        else:
            remedy = f"put {self.files[0]} into the working directory or name its path instead"
        raise DataError(self.name, None, "not on this machine", remedy)

    def part(self, name: str) -> "Recipe":
        """Another part of the same files. Raises `EmbedxError` if the recipe has none
        of that name.
        """
        if name not in self.parts:
            raise DataError(
                self.name, None, f"has no part {name}", f"it has {', '.join(self.parts) or 'none'}"
            )
        fields = {"members": "", "parts": {}, **self.parts[name]}
        return replace(self, name=f"{self.name}:{name}", **fields)


# The type of each field in a file.
FIELDS = {
    name: type(value)
    for name, value in vars(Recipe("", Path())).items()
    if name not in ("name", "folder")
}


def public_url(name: str) -> str:
    """A URL without what may be secret: user, password, and values of its query. Any other name
    stays as it is.
    """
    scheme, is_url, rest = name.partition("://")
    if not is_url:
        return name
    rest, has_query, query = rest.partition("#")[0].partition("?")
    host, slash, path = rest.partition("/")
    keys = [part.partition("=")[0] for part in QUERY_SEPARATOR.split(query) if "=" in part]
    shown = "&".join(f"{key}=..." for key in keys) or "..."
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" + (f"?{shown}" if has_query else "")


def _package_folders(package: str) -> list[Path]:
    """The folders of an installed package, which is not imported: that runs its code."""
    top, *inner = package.split(".")
    if not all(map(str.isidentifier, (top, *inner))):
        return []
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        if spec is not None:
            return [Path(place, *inner) for place in spec.submodule_search_locations or []]
    return []


def data_folder() -> Path:
    """Where `embedx corpus fetch` puts files, and where recipes find them."""
    return Path(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "embedx", "corpora"
    )


def find_recipe(name: str) -> Recipe | None:
    """The recipe of that name, None if there is none."""
    if Path(name).name != name:
        return None
    name, has_part, part = name.partition(":")
    recipe = _of_name(name)
    return recipe.part(part) if recipe and has_part else recipe


def _of_name(name: str) -> Recipe | None:
    """The recipe of that name, or of its beginning, with values for the placeholders after it."""
    words = name.split("-")
    for n in range(len(words), 0, -1):
        values = words[n:]
        for folder in _folders():
            file = folder / f"{'-'.join(words[:n])}.toml"
            if _takes_values(file, len(values)):
                _warn_of_shadow(file)
                return _load(file, name, values) if all(map(VALUE.fullmatch, values)) else None
    return None


def _takes_values(file: Path, n_values: int) -> bool:
    """Whether there is a recipe in a file, with so many placeholders or more."""
    # unlike `Path.is_file`, takes a name that is too long
    if not os.path.isfile(file):
        return False
    if n_values == 0:
        return True
    placeholders = _content_if_readable(file).get("values")
    return isinstance(placeholders, dict) and n_values <= len(placeholders)


@functools.cache
def _warn_of_shadow(file: Path) -> None:
    """Warn, once, of a recipe that takes the place of one that comes with embedx."""
    built_in = [*_folders()][-1] / file.name
    if file.parent != built_in.parent and built_in.exists():
        log.warning(f"{file}: takes the place of the recipe {file.stem} that comes with embedx")


def recipe_names() -> list[str]:
    """The names of all recipes that can be found."""
    files = (file for folder in _folders() for file in folder.glob("*.toml"))
    # Other programs keep TOML files in working directories too: a recipe has a kind and a reader.
    return sorted(
        {file.stem for file in files if {"kind", "reader"} <= _content_if_readable(file).keys()}
    )


def listed() -> list[dict[str, str]]:
    """Name, kind, state and subject of each recipe that can be found.

    The state is "here" where its files are, else how they are obtained: "fetch", "package" or "by
    hand".
    """
    rows = []
    for name in recipe_names():
        recipe = _of_name(name)
        if recipe is not None:
            rows.append(_row(recipe))
            rows += [_row(recipe.part(part)) for part in recipe.parts]
    return rows


def _row(recipe: Recipe) -> dict[str, str]:
    """What `listed` says of a recipe."""
    if recipe.files_here():
        state = "here"
    elif recipe.package:
        state = "package"
    elif recipe.urls:
        state = "fetch"
    else:
        state = "by hand"
    return {"name": recipe.name, "kind": recipe.kind, "state": state, "about": recipe.about}


def near_recipe(name: str) -> str:
    """What to do about a name that is no file's and no recipe's."""
    return near_file(name, "`embedx corpus list` shows the recipes", recipe_names())


def _folders() -> Iterator[Path]:
    """The folders of recipes, in the order in which they are searched; ours is the last."""
    yield Path()
    configuration = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    folder_of_user = os.path.join(configuration, "embedx")
    # not so where a user has no home, or may not look into it
    if os.path.isdir(folder_of_user):
        yield Path(folder_of_user)
    package = Path(__file__).parents[1]
    in_wheel = package / "_corpora"
    in_checkout = package.parent / "corpora"
    for folder in (in_wheel, in_checkout):
        if folder.is_dir():
            yield folder
            return


def _content(file: Path) -> Record:
    """The fields of a TOML file. Raises OSError, ValueError or RecursionError where it is none, or
    longer than a recipe.
    """
    if not os.path.isfile(file):
        raise OSError("no file")  # a pipe would not end
    if os.path.getsize(file) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES:,} bytes")
    return tomllib.loads(file.read_text("utf-8-sig"))


def _content_if_readable(file: Path) -> Record:
    """The fields of a TOML file; none where it is not readable."""
    # RecursionError is for brackets within brackets
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return _content(file)
    return {}


def _load(file: Path, name: str, first_values: list[str]) -> Recipe:
    """The recipe in a file, with values for its first placeholders."""
    try:
        content = _content(file)
        _check(content, FIELDS, "")
        defaults = content.get("values", {})
        values = {**defaults, **dict(zip(defaults, first_values, strict=False))}
        content = json.loads(_filled(json.dumps(content), values))
        for part, fields in content.get("parts", {}).items():
            _check(fields, {field: FIELDS[field] for field in PART_FIELDS}, f"parts: {part}: ")
        kind = content.get("kind", "")
        reader = content.get("reader", "")
        if reader not in KINDS.get(kind, ()):
            raise ValueError(
                f"kind = {kind!r} and reader = {reader!r}; readers of each kind are {KINDS}"
            )
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(
            file, None, f"not a readable recipe ({error})", "compare it with corpora/README.md"
        ) from error
    return Recipe(name=name, folder=file.parent, **content)


def _filled(text: str, values: Mapping[str, str]) -> str:
    """JSON with values for its placeholders, in which no others are looked for. Raises ValueError
    if it is then longer than a recipe may be.
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
    """Raise ValueError if these are not fields of a recipe, or of a part of one."""
    if not isinstance(content, dict):
        raise ValueError(f"{where}no table")
    for name, value in content.items():
        if name not in kinds:
            raise ValueError(f"{where}unknown field {name}; choose among {', '.join(kinds)}")
        if not isinstance(value, kinds[name]) or (
            isinstance(value, list) and not all(isinstance(item, str) for item in value)
        ):
            kind = "list of strings" if kinds[name] is list else kinds[name].__name__
            raise ValueError(f"{where}{name} = {value!r} is no {kind}")
    if not content.get("files"):
        raise ValueError(f'{where}no files; add files = ["PATH"]')
