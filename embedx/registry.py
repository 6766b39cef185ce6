"""What is declared in a folder, a file each: the folder lists one line for each, and this loads
what the lines name.
"""

import importlib
from collections.abc import Iterable
from typing import Any


def load(package: str, lines: Iterable[str]) -> dict[str, Any]:
    """The classes that lines such as "file.Class" name in the modules of a package, by their
    `name`, in the same order.
    """
    found = {}
    for line in lines:
        file, name = line.split(".")
        each = getattr(importlib.import_module(f"{package}.{file}"), name)
        if each.name in found:
            raise ValueError(f"{package}.{line}: another line has the name {each.name}")
        found[each.name] = each
    return found
