"""Recipes: corpora known by name, each a `NAME.toml` that says what it is, where it comes from and how to read it.

They are looked for in the working directory, in the user's configuration folder and among those that come with embedx,
in this order. `corpora/README.md` explains the fields.

    NAME                a recipe
    NAME-VALUE-...      with values for its placeholders, in the order in which it declares them: `wikipedia-de-20240101`
    NAME:PART           another part of the same files: `one-billion-word:heldout`
"""

import contextlib
import glob
import importlib.util
import os
import posixpath
import re
import tomllib
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from embedx.errors import EmbedxError, near

KINDS = {"text": ("text", "wikipedia"), "classes": ("xc", "idx")}  # what a recipe is for, and the readers of each
OF_PARTS = ("about", "files", "members", "words")  # fields that a part has of its own
VALUE = re.compile(r"\w+")  # what may stand for a placeholder: no path, and no hyphen, which separates them
SHA256 = re.compile(r"[0-9a-f]{64}")
MAX_BYTES = 1 << 16  # twenty times the longest of ours; Python's parser takes time with the square of a key's length


@dataclass(frozen=True)
class Recipe:
    """The content of one `NAME.toml`; only `kind` and `reader` are required."""

    name: str
    folder: Path  # where the TOML file lies
    kind: str = "text"
    reader: str = "text"
    about: str = ""
    package: str = ""  # an installed Python package that holds the files
    files: list[str] = field(default_factory=list)  # paths or globs, alternatives: the first that is there is read
    members: str = ""  # which members of an archive among `files` are read, a glob
    urls: list[str] = field(default_factory=list)  # of one file, the mirrors of the first after it
    obtain: str = ""  # how to get the files where no program can
    unpack: str = ""  # what to do with the download before it can be read
    sha256: str = ""  # of the file as fetched
    checksums: str = ""  # URL of a list of checksums, one of which is that of the file as fetched
    checksum_of: str = ""  # by which name, a glob; that of the file unless given
    fetched_size: int | None = None  # bytes of the file as fetched
    size: int | None = None  # bytes of the text
    words: int | None = None
    cut_off: bool = False
    licence: str = ""
    citation: str = ""
    values: dict[str, str] = field(default_factory=dict)  # placeholders and what stands for them unless the name says otherwise
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)  # other parts of the files, by name: see OF_PARTS
    settings: dict[str, Any] = field(default_factory=dict)  # default values of TextSettings for this corpus

    @property
    def download(self) -> str:
        """The name of the file that is fetched; "" if none is."""
        return posixpath.basename(urllib.parse.urlsplit(self.urls[0]).path) if self.urls else ""

    def find_files(self) -> list[str]:
        """Where its files are on this machine; `EmbedxError` says how to get them if they are not here."""
        if found := self.files_here():
            return found
        raise EmbedxError(f"{self.name}: {self._remedy()}")

    def files_here(self) -> list[str]:
        """Where its files are on this machine, none if they are not."""
        for place in self._places():
            for pattern in self.files:
                with contextlib.suppress(ValueError):  # no file has a zero byte in its name
                    if found := sorted(glob.glob(os.path.join(glob.escape(str(place)), pattern), recursive=True)):
                        return found
        return []

    def _places(self) -> list[Path]:
        if self.package:
            # Only locates the package; importing it could take seconds.
            try:
                spec = importlib.util.find_spec(self.package)
            except (ImportError, ValueError):  # for which that is no name of a package
                spec = None
            return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
        return [Path(), self.folder, data_folder()]

    def _remedy(self) -> str:
        if self.package:
            return (
                f"comes with the Python package {self.package}, which is not installed or lacks it; pip install {self.package}"
            )
        if self.obtain:
            return f"not on this machine; get it {self.obtain}, then put {self.files[0]} into the working directory"
        unpack = f", unpack it ({self.unpack})" if self.unpack else ""
        if not self.urls:
            return f"not on this machine{unpack}; put {self.files[0]} into the working directory or name its path instead"
        return (
            f"not on this machine; embedx corpus fetch {self.name} gets it{unpack}, "
            f"or put {self.download} of {self.urls[0]} into the working directory or {data_folder()}"
        )

    def with_values(self, values: Mapping[str, str]) -> "Recipe":
        """The same with every placeholder replaced, by one of these values or the recipe's own."""
        values = {**self.values, **values}

        def filled(value: Any) -> Any:
            if isinstance(value, str):
                for name, own in values.items():
                    value = value.replace(f"{{{name}}}", own)
                return value
            if isinstance(value, dict):
                return {name: filled(each) for name, each in value.items()}
            return [filled(each) for each in value] if isinstance(value, list) else value

        changed = {each.name: filled(getattr(self, each.name)) for each in fields(self) if each.name not in ("name", "values")}
        return replace(self, **changed, values=values)

    def part(self, name: str) -> "Recipe":
        """Another part of the same files. Raises `EmbedxError` if the recipe has none of that name."""
        if name not in self.parts:
            raise EmbedxError(f"{self.name}: has no part {name}; it has {', '.join(self.parts) or 'none'}")
        own: dict[str, Any] = {"members": "", "words": None, **self.parts[name]}
        return replace(self, name=f"{self.name}:{name}", size=None, parts={}, **own)


def data_folder() -> Path:
    """Where `embedx corpus fetch` puts files, and where recipes find them."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "embedx", "corpora")


def find_recipe(name: str) -> Recipe | None:
    """The recipe of that name, None if there is none."""
    if Path(name).name != name:
        return None
    name, has_part, part = name.partition(":")
    recipe = _of_name(name)
    return recipe.part(part) if recipe and has_part else recipe


def _of_name(name: str) -> Recipe | None:
    """The recipe of that name, of all of it or of its beginning with values for the placeholders."""
    words = name.split("-")
    for n in range(len(words), 0, -1):
        own, values = "-".join(words[:n]), words[n:]
        for folder in _folders():
            file = folder / f"{own}.toml"
            if own and os.path.isfile(file):  # unlike `Path.is_file`, takes a name that is too long
                if values and not _content_if_readable(file).get("values"):
                    continue
                recipe = _load(file)
                if len(values) <= len(recipe.values) and all(map(VALUE.fullmatch, values)):
                    given = dict(zip(recipe.values, values, strict=False))
                    return replace(recipe, name=name).with_values(given)
    return None


def recipe_names() -> list[str]:
    """The names of all recipes that can be found."""
    files = (file for folder in _folders() for file in folder.glob("*.toml"))
    # Other programs keep TOML files in working directories too: a recipe has a kind and a reader.
    return sorted({file.stem for file in files if {"kind", "reader"} <= _content_if_readable(file).keys()})


def listed() -> list[dict[str, str]]:
    """Name, kind, state and subject of each recipe that can be found.

    The state is "here" where its files are, else how they can be had: "fetch", "package" or "by hand"; "damaged" if it is no
    recipe as it should be.
    """
    rows = []
    for name in recipe_names():
        try:
            recipe = _of_name(name)
            assert recipe is not None
        except EmbedxError as error:
            rows.append({"name": name, "kind": "", "state": "damaged", "about": str(error)})
            continue
        elsewhere = "package" if recipe.package else "fetch" if recipe.urls else "by hand"
        state = "here" if recipe.files_here() else elsewhere
        rows.append({"name": name, "kind": recipe.kind, "state": state, "about": recipe.about})
        rows += [
            {"name": f"{name}:{part}", "kind": recipe.kind, "state": state, "about": str(own.get("about", ""))}
            for part, own in recipe.parts.items()
        ]
    return rows


def near_recipe(name: str) -> str:
    """What to do about a name that is no recipe's."""
    return near(name, recipe_names(), "`embedx corpus list` shows the recipes")


def _folders() -> Iterator[Path]:
    yield Path()
    own = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "embedx")
    if os.path.isdir(own):  # not so where a user has no home, or may not look into it
        yield Path(own)
    package = Path(__file__).parents[1]
    for folder in (package / "_corpora", package.parent / "corpora"):  # in a wheel; in a checkout
        if folder.is_dir():
            yield folder
            return


def _content(file: Path) -> dict[str, Any]:
    """What the file says; OSError, ValueError or RecursionError if it is no TOML, or longer than a recipe."""
    if not os.path.isfile(file):
        raise OSError("no file")  # a pipe would not end
    with open(file, "rb") as opened:
        text = opened.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES:,} bytes")
    return tomllib.loads(text.decode("utf-8"))


def _content_if_readable(file: Path) -> dict[str, Any]:
    """What the file says; nothing if it cannot be read."""
    try:
        return _content(file)
    except (OSError, ValueError, RecursionError):
        return {}


def _kind(field: "Field[Any]") -> type:
    """What a field's value must be: what it is by default; int where that is None."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return int if default is None else type(default)


def _is_kind(value: Any, kind: type) -> bool:
    """Whether a field's value is of the kind it must be; lists are of strings."""
    return isinstance(value, kind) and (not isinstance(value, list) or all(isinstance(each, str) for each in value))


def _choices(names: Iterable[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)


def _load(file: Path) -> Recipe:
    try:
        content = _content(file)
    except (OSError, ValueError, RecursionError) as error:  # the last of brackets within brackets
        raise EmbedxError(f"{file}: not a readable recipe ({error}); compare it with corpora/README.md") from error
    kinds = {f.name: _kind(f) for f in fields(Recipe) if f.name not in ("name", "folder")}
    if unknown := sorted(content.keys() - kinds):
        raise EmbedxError(f"{file}: unknown field {', '.join(unknown)}; a recipe has {', '.join(sorted(kinds))}")
    for name, value in content.items():
        if not _is_kind(value, kinds[name]):
            kind = "list of strings" if kinds[name] is list else kinds[name].__name__
            raise EmbedxError(f"{file}: {name} = {value!r} is no {kind}; compare it with corpora/README.md")
    if not content.get("files"):
        raise EmbedxError(f'{file}: no files; add files = ["PATH"], as in corpora/README.md')
    if content.get("kind") not in KINDS:
        raise EmbedxError(f"{file}: kind = {content.get('kind')!r}; choose {_choices(KINDS)}")
    readers = KINDS[content["kind"]]
    if content.get("reader") not in readers:
        raise EmbedxError(f"{file}: reader = {content.get('reader')!r}; choose {_choices(readers)}")
    if (sha256 := content.get("sha256")) and not SHA256.fullmatch(sha256):
        raise EmbedxError(f"{file}: sha256 = {sha256!r} is none; it has 64 digits, 0-9 and a-f")
    for name, value in content.get("values", {}).items():
        if not isinstance(value, str) or not VALUE.fullmatch(value):
            raise EmbedxError(f"{file}: values: {name} = {value!r} is no string of letters, digits and underscores")
    for name, part in content.get("parts", {}).items():
        is_part = isinstance(part, dict) and "files" in part and part.keys() <= set(OF_PARTS)
        if not is_part or not all(_is_kind(value, kinds[field]) for field, value in part.items()) or not part["files"]:
            raise EmbedxError(f"{file}: parts: {name} is no table of files, members, about and words, as in corpora/README.md")
    return Recipe(name=file.stem, folder=file.parent, **content)
