"""The package is built in layers: what a file imports lies in its own folder or further down, so
that there are no circles.
"""

import ast
from importlib.util import resolve_name
from pathlib import Path

import embedx
from embedx.kernels.compiled import WITHOUT_KERNELS

ROOT = Path(embedx.__file__).parent
# Lowest first. A layer is a folder or a module at the top of the package; those of one set do not
# know of each other.
LAYERS = (
    {"errors"},
    {"registry"},
    {"settings"},
    {"pages"},
    {"storage"},
    {"kernels"},
    {"training"},
    {"text"},
    {"labeled"},
    {"search"},
    {"samplers"},
    {"objectives"},
    {"parameters"},
    {"optimizers"},
    {"engine"},
    {"vectors"},
    {"evaluation", "graphs"},
    {"skipgram", "classification"},
    {"comparison", "report", "distributed"},
    {"api"},
    {"cli"},
)
ABOVE_ALL = {"__init__", "__main__"}  # what a user asks the package for, wherever it lies


def modules():
    """The file of every module of the package by its name, that of a folder under the folder's
    name.
    """
    named = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


def imported(name, path, known):
    """The modules of the package that a module imports, wherever in its text; "" where it is the
    whole package.
    """
    package = ".".join(["embedx", *path.relative_to(ROOT).parts[:-1]])
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            whence = resolve_name("." * node.level + (node.module or ""), package)
            found = [f"{whence}.{alias.name}" for alias in node.names]
        else:
            continue
        for each in found:
            if each.split(".")[0] == "embedx":
                inside = each.split(".")[1:]
                if inside and inside[0] in embedx._HOME:  # what `embedx` itself offers
                    inside = embedx._HOME[inside[0]].split(".")
                while inside and ".".join(inside) not in known:  # the name of something in a module
                    inside.pop()
                yield ".".join(inside)


def height_of(name):
    """The layer in which a module lies; the whole package is above all."""
    top = name.split(".")[0]
    return next((i for i, layer in enumerate(LAYERS) if top in layer), len(LAYERS))


def test_everything_has_its_place():
    assert {name.split(".")[0] for name in modules()} - ABOVE_ALL <= set().union(*LAYERS)


def test_folders_without_kernels_have_none_and_stand_above_those_with_them():
    known = modules()
    with_kernels = {
        name.split(".")[0] for name, path in known.items() if "@kernel" in path.read_text("utf-8")
    }
    assert not with_kernels & WITHOUT_KERNELS
    imports = {
        each.split(".")[0]
        for name, path in known.items()
        if name.split(".")[0] in with_kernels
        for each in imported(name, path, known)
    }
    assert not imports & WITHOUT_KERNELS


def test_imports_go_down():
    known = modules()
    pairs = {
        (name, each)
        for name, path in known.items()
        if name not in ABOVE_ALL
        for each in imported(name, path, known)
    }
    elsewhere = {(name, each) for name, each in pairs if name.split(".")[0] != each.split(".")[0]}
    assert len(elsewhere) > 100
    upwards = {(name, each) for name, each in elsewhere if height_of(each) >= height_of(name)}
    assert not upwards, "these imports go up, or beside"
