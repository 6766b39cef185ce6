"""Recipes: corpora known by name, each a `NAME.toml` that says what it is, where it comes from and how to read it.

They are looked for in the working directory, in the user's configuration folder and among those that come with embedx,
in this order. `corpora/README.md` explains the fields.
"""

import contextlib
import glob
import importlib.util
import os
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from embedx.errors import EmbedxError

MOST_BYTES = 1 << 16  # twenty times the longest of ours; Python's parser takes time with the square of a key's length


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
    urls: list[str] = field(default_factory=list)
    unpack: str = ""  # what to do with the download before it can be read
    sha256: str = ""
    size: int | None = None  # bytes of the text
    words: int | None = None
    cut_off: bool = False
    licence: str = ""
    citation: str = ""
    settings: dict[str, Any] = field(default_factory=dict)  # values of TextSettings that suit this corpus

    def find_files(self) -> list[str]:
        """Where its files are on this machine; `EmbedxError` says how to get them if they are not here."""
        for place in self._places():
            for pattern in self.files:
                with contextlib.suppress(ValueError):  # no file has a zero byte in its name
                    if found := sorted(glob.glob(os.path.join(glob.escape(str(place)), pattern), recursive=True)):
                        return found
        raise EmbedxError(f"{self.name}: {self._remedy()}")

    def _places(self) -> list[Path]:
        if self.package:
            # Only locates the package; importing it could take seconds.
            try:
                spec = importlib.util.find_spec(self.package)
            except (ImportError, ValueError):  # for which that is no name of a package
                spec = None
            return [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
        return [Path(), self.folder]

    def _remedy(self) -> str:
        if self.package:
            return (
                f"comes with the Python package {self.package}, which is not installed or lacks it; pip install {self.package}"
            )
        fetch = f"fetch {self.urls[0]}, " if self.urls else ""
        unpack = f"unpack it ({self.unpack}), " if self.unpack else ""
        return (
            f"not on this machine; {fetch}{unpack}then put {self.files[0]} into the working directory or name its path instead"
        )


def find_recipe(name: str) -> Recipe | None:
    """The recipe of that name, None if there is none."""
    if Path(name).name != name:
        return None
    for folder in _folders():
        file = folder / f"{name}.toml"
        if os.path.isfile(file):  # unlike `Path.is_file`, that may be asked of a name that is too long
            return _load(file)
    return None


def recipe_names() -> list[str]:
    """The names of all recipes that can be found."""
    return sorted({file.stem for folder in _folders() for file in folder.glob("*.toml") if _is_recipe(file)})


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
        text = opened.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    return tomllib.loads(text.decode("utf-8"))


def _is_recipe(file: Path) -> bool:
    """Other programs keep TOML files in working directories too: a recipe says its kind and reader."""
    try:
        content = _content(file)
    except (OSError, ValueError, RecursionError):
        return False
    return "kind" in content and "reader" in content


def _kind(field: "Field[Any]") -> type:
    """What a field's value must be: what it is by default; int where that is None."""
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return int if default is None else type(default)


def _load(file: Path) -> Recipe:
    try:
        content = _content(file)
    except (OSError, ValueError, RecursionError) as error:  # the last of brackets within brackets
        raise EmbedxError(f"{file}: not a readable recipe ({error}); compare it with corpora/README.md") from error
    kinds = {f.name: _kind(f) for f in fields(Recipe) if f.name not in ("name", "folder")}
    if unknown := sorted(content.keys() - kinds):
        raise EmbedxError(f"{file}: unknown field {', '.join(unknown)}; a recipe has {', '.join(sorted(kinds))}")
    for name, value in content.items():
        is_right = isinstance(value, kinds[name])
        if not is_right or (isinstance(value, list) and not all(isinstance(each, str) for each in value)):
            kind = "list of strings" if kinds[name] is list else kinds[name].__name__
            raise EmbedxError(f"{file}: {name} = {value!r} is no {kind}; compare it with corpora/README.md")
    if not content.get("files"):
        raise EmbedxError(f'{file}: no files; add files = ["PATH"], as in corpora/README.md')
    if content.get("reader") not in ("text", "wikipedia"):
        raise EmbedxError(f'{file}: reader = {content.get("reader")!r}; choose "text" or "wikipedia"')
    return Recipe(name=file.stem, folder=file.parent, **content)
