"""Objectives and samplers of other packages: each machine of a cluster needs the package."""

import importlib
import importlib.metadata
from collections.abc import Iterable
from typing import Any, NamedTuple

from embedx.errors import one_line
from embedx.objectives import OBJECTIVES
from embedx.objectives.contract import Objective
from embedx.samplers import SAMPLERS
from embedx.samplers.contract import Sampler

# The module of a script, whose classes are sent themselves, not by name.
SCRIPT = "__main__"


class Needed(NamedTuple):
    """A module of another package that a run needs; package and version are "" if unknown."""

    module: str
    package: str
    version: str


def needed(parts: Iterable[Any]) -> list[Needed]:
    """The modules of other packages that objectives and samplers among some objects are from."""
    modules = []
    for part in parts:
        origin: dict[str, str] = {}
        if isinstance(part, Objective):
            origin = OBJECTIVES.origin(part.name)
        elif isinstance(part, Sampler):
            origin = SAMPLERS.origin(part.name)
        module = type(part).__module__
        if origin and module != SCRIPT:
            package = origin.get("package", "")
            modules.append(Needed(module, package, origin.get("version", "")))
    return modules


def problem_with(modules: Iterable[Needed]) -> str:
    """The problem of this machine with modules that a run needs, such as "lacks the package
    embedx-hinge 0.1 (...)"; "" if there is none. Runs on the workers' machines.
    """
    for module, package, version in modules:
        try:
            importlib.import_module(module)
        # The import of a package may raise anything.
        except (Exception, SystemExit) as error:
            name = f"the package {package} {version}" if package else f"the module {module}"
            return one_line(f"lacks {name} ({type(error).__name__}: {error})")
        if package:
            installed = importlib.metadata.version(package)
            if installed != version:
                return f"has {package} {installed}, not {version}"
    return ""
