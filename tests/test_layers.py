"""The package is built in layers: what a file imports lies in its own folder or further down, so
that there are no circles.
"""

import ast
import functools
import re
from importlib.util import resolve_name
from pathlib import Path

import embedx
from embedx.kernels.kernel_folder import KERNEL_SOURCES
from tests.support.layers import LAYERS, height_of

ROOT = Path(embedx.__file__).parent
NAME_OF_MODULE = re.compile(r"embedx(\.\w+)+")
ABOVE_ALL = {"__init__", "__main__"}  # what a user asks the package for, wherever it lies


def modules():
    """The file of every module of the package by its name, that of a folder under the folder's
    name.
    """
    named = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


@functools.cache
def syntax_tree(path):
    """The syntax tree of a file, which several tests read."""
    return ast.parse(path.read_text("utf-8"))


def imported(path, known):
    """The modules of the package that a module imports, wherever in its text; "" where it is the
    whole package.
    """
    package = ".".join(["embedx", *path.relative_to(ROOT).parts[:-1]])
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whence = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{whence}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # what import_module gets, or a process that is started
            names = [node.value] if NAME_OF_MODULE.fullmatch(node.value) else []
            names = [
                import_name for import_name in names if import_name.removeprefix("embedx.") in known
            ]
        else:
            continue
        for dotted_name in names:
            if dotted_name.split(".")[0] == "embedx":
                inside = dotted_name.split(".")[1:]
                if inside and inside[0] in embedx._HOME:  # what `embedx` itself offers
                    inside = embedx._HOME[inside[0]].split(".")
                while inside and ".".join(inside) not in known:  # the name of something in a module
                    inside.pop()
                yield ".".join(inside)


def test_every_module_belongs_to_a_layer():
    assert {name.split(".")[0] for name in modules()} - ABOVE_ALL <= set().union(*LAYERS)


@functools.cache
def constants_and_kernels(path):
    """What a file gives to kernels of other files: names of constants and of kernels."""
    return set(_constants_and_kernels(path))


def _constants_and_kernels(path):
    for node in syntax_tree(path).body:
        if isinstance(node, ast.FunctionDef) and {ast.unparse(d) for d in node.decorator_list} & {
            "kernel",
            "kernel_part",
        }:
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from (name.id for name in names if isinstance(name, ast.Name))


def names_in_kernels(tree):
    """The names that the kernels of a file read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(decorator).split("(")[0] in ("kernel", "kernel_part", "overload")
            for decorator in node.decorator_list
        ):
            yield from (name.id for name in ast.walk(node) if isinstance(name, ast.Name))


def test_sources_that_kernels_depend_on_name_the_folder_of_compiled_kernels():
    """Else an edit of one would leave old machine code in use."""
    paths = modules()
    files = {ROOT / source for source in KERNEL_SOURCES}
    n_names = 0
    for path in paths.values():
        tree = syntax_tree(path)
        read = set(names_in_kernels(tree))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("embedx"):
                continue
            home = paths.get(node.module.removeprefix("embedx").lstrip("."))
            if home is None:
                continue
            constants = constants_and_kernels(home)
            used = {alias.name for alias in node.names if (alias.asname or alias.name) in read}
            n_names += len(used & constants)
            if used & constants:
                assert home in files or files & set(home.parents), (path, home, used & constants)
    assert n_names > 50


def test_modules_import_only_from_lower_layers():
    paths = modules()
    pairs = {
        (name, import_name)
        for name, path in paths.items()
        if name not in ABOVE_ALL
        for import_name in imported(path, paths)
    }
    elsewhere = {
        (name, import_name)
        for name, import_name in pairs
        if name.split(".")[0] != import_name.split(".")[0]
    }
    assert len(elsewhere) > 100
    upwards = {
        (name, import_name)
        for name, import_name in elsewhere
        if height_of(import_name) >= height_of(name)
    }
    assert not upwards, "these imports go up, or beside"


def test_no_test_module_imports_another():
    """What tests share is in tests/support/."""
    statement = re.compile(r"^ *(?:from|import) (?:tests\.|tests import )?test_\w+", re.MULTILINE)
    imports = {
        path.name: statement.findall(path.read_text("utf-8"))
        for path in Path(__file__).parent.rglob("*.py")
    }
    assert {name: lines for name, lines in imports.items() if lines} == {}
