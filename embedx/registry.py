"""Registries: classes by their names. The `__init__.py` of a folder lists its classes, one line
each; other packages add theirs by entry points.
"""

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar

from embedx.errors import SettingError, one_line

log = logging.getLogger("embedx")
REMEDY = "update or uninstall that package"


class Named(Protocol):
    name: str


C = TypeVar("C", bound=type[Named])


def load(package: str, lines: Iterable[str]) -> dict[str, Any]:
    """The classes in the modules of a package given by lines such as "file.Class", by their `name`,
    in the same order.
    """
    classes: dict[str, Any] = {}
    for line in lines:
        file, class_name = line.split(".")
        registered = getattr(importlib.import_module(f"{package}.{file}"), class_name)
        if registered.name in classes:
            raise ValueError(f"{package}.{line}: another line has the name {registered.name}")
        classes[registered.name] = registered
    return classes


class Registry(MutableMapping[str, C]):
    """Classes by their `name`: those of this package first, then those of other packages.

    Other packages are imported when the registry is first read, not before, because they import
    embedx. Classes that cannot be used are left out.

    setting  the setting whose values are the names, such as `objective`
    group    the group of entry points
    check    returns what is wrong with a class of another package; "" if nothing is
    """

    def __init__(
        self,
        package: str,
        lines: Iterable[str],
        *,
        setting: str,
        group: str,
        check: Callable[[Any], str],
    ) -> None:
        self.setting = setting
        self.group = group
        self.check = check
        # problems of classes of other packages, by name
        self.broken: dict[str, str] = {}
        self._classes: dict[str, C] = load(package, lines)
        self._package = package.partition(".")[0]
        self._origins: dict[str, dict[str, str]] = {}
        self._has_plugins = False
        self._reported: set[str] = set()

    def __getitem__(self, name: str) -> C:
        return self._all()[name]

    def __setitem__(self, name: str, registered: C) -> None:
        self._classes[name] = registered

    def __delitem__(self, name: str) -> None:
        del self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def imported(self) -> dict[str, C]:
        """The classes imported so far."""
        return dict(self._classes)

    def names(self) -> tuple[str, ...]:
        """The names of all classes; those of other packages are the names of entry points, which
        are not imported.
        """
        others = sorted(point.name for point in entry_points(group=self.group))
        return tuple(dict.fromkeys((*self._classes, *others)))

    def origin(self, name: str) -> dict[str, str]:
        """The origin of a class, as JSON: the `package` and its `version`, or the `module` that
        registered it; empty for the classes of this package.
        """
        registered = self.get(name)
        if registered is None or registered.__module__.partition(".")[0] == self._package:
            return {}
        return self._origins.get(name) or {"module": registered.__module__}

    def check_usable(self, name: str) -> None:
        """Raise `SettingError` if another package has a class of this name that cannot be used."""
        if name not in self and name in self.broken:
            self._reported.add(name)
            raise SettingError(self.setting, name, self.broken[name], REMEDY)

    def report_broken(self) -> None:
        """Log a line for each class of another package that cannot be used, once."""
        self._all()
        for name, problem in self.broken.items():
            if name not in self._reported:
                self._reported.add(name)
                log.warning(f"{self.setting} {name}: {problem}; {REMEDY}")

    def _all(self) -> dict[str, C]:
        if not self._has_plugins:
            self._has_plugins = True  # first: a plug-in may read the registry
            for point in sorted(entry_points(group=self.group), key=_order):
                self._add(point)
        return self._classes

    def _add(self, point: EntryPoint) -> None:
        package = point.dist.name if point.dist else point.module
        version = point.dist.version if point.dist else ""
        try:
            registered = point.load()
            problem = self._problem(point.name, registered)
        except (Exception, SystemExit) as error:  # importing the package may raise any error
            problem = one_line(f"{type(error).__name__}: {error}")
        if problem:
            complaint = f"the package {package} {version} cannot be used ({problem})"
            self.broken.setdefault(point.name, complaint)
            return
        self._classes[point.name] = registered
        self._origins[point.name] = {"package": package, "version": version}

    def _problem(self, name: str, registered: Any) -> str:
        """What is wrong with a class from an entry point of this name; "" if nothing is."""
        if name in self._classes:
            return f"there is another {self.setting} {name}"
        problem = self.check(registered)
        if not problem and registered.name != name:
            return f"its class has the name {registered.name}, its entry point {name}"
        return problem


def _order(point: EntryPoint) -> tuple[str, str]:
    return point.name, point.dist.name if point.dist else point.module


def wrong_class(candidate: Any, base: type, needed: Iterable[str]) -> str:
    """What is wrong with a class that should extend `base` and have the attributes `needed`; "" if
    nothing is.
    """
    if not (isinstance(candidate, type) and issubclass(candidate, base)):
        return f"{candidate!r} is no subclass of {base.__module__}.{base.__qualname__}"
    missing = [name for name in needed if not hasattr(candidate, name)]
    missing += getattr(candidate, "__abstractmethods__", ())
    if missing:
        return f"{candidate.__qualname__} does not define {', '.join(missing)}"
    return ""
