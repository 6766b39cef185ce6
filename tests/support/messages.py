"""All messages of the package, read from its source: kind, fields as templates, both renderings.

What is computed when a message is made stands there as its expression in braces.
"""

import ast
import functools
import importlib
import inspect
import os
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import embedx
from embedx.cli.setting_options import SETTING_OPTIONS
from embedx.errors import EmbedxError, Setting, Spelling, in_python, spelled
from embedx.spelling import on_command_line

PACKAGE = Path(embedx.__file__).parent
HEADER = """\
# The words of errors, notes and warnings that stand where these are raised or reported, as the
# command line and Python spell them, with what only a run knows as its expression in braces and of
# texts chosen by a branch the last one; usage errors of typer, help and results are not here.
"""
# Methods of progress, and of Python's log and warnings, whose text is for the user.
NOTES = ("note", "warn", "detail", "warning")
# Why a record cannot be read, which becomes part of an error.
RECORD_MESSAGES = ("Reason", "BadRecord")
# Fields that are text, or are in no heading because they are the message.
TEXTS = ("problem", "remedy", "purpose", "parts")
Kinds = dict[str, type[EmbedxError]]


class Template:
    """The value of an expression that only a run knows."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __str__(self) -> str:
        return f"{{{self.source}}}"

    __repr__ = __str__


def messages() -> str:
    """An entry for each message, in the order of the files and lines."""
    for options in SETTING_OPTIONS.values():
        options()  # declares the settings that are given by --set
    paths = sorted(PACKAGE.rglob("*.py"))
    imported = {path: _imported(path) for path in paths}
    kinds = _kinds()
    entries = [entry for path in paths for entry in _entries(path, imported[path], kinds)]
    return "\n".join([HEADER, *entries])


def _subclasses(kind: type[EmbedxError]) -> Iterator[type[EmbedxError]]:
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith("embedx."):
            yield subclass
            yield from _subclasses(subclass)


def remedies() -> list[str]:
    """The remedies of all errors, with settings as in Python; those that are made at run time are
    expressions in braces.
    """
    paths = sorted(PACKAGE.rglob("*.py"))
    imported = {path: _imported(path) for path in paths}
    kinds = _kinds()
    texts = []
    for path in paths:
        for call, known in _calls(path, imported[path], kinds):
            kind = kinds[_name_of(call)]
            if "remedy" in inspect.signature(kind).parameters:
                remedy = _bound(kind, call, known).arguments.get("remedy", "")
                texts.append(spelled(EmbedxError(remedy).parts, _of_templates(in_python)))
    return texts


def _kinds() -> Kinds:
    """All kinds of errors, once the modules of the package are imported."""
    return {kind.__name__: kind for kind in (EmbedxError, *_subclasses(EmbedxError))}


def _entries(path: Path, imported: dict[str, ast.expr], kinds: Kinds) -> list[str]:
    entries = []
    for call, known in _calls(path, imported, {*kinds, *RECORD_MESSAGES, *NOTES}):
        name = _name_of(call)
        if name in kinds:
            entries.append(_error_entry(kinds[name], call, known))
        elif name == "Reason":
            entries.append(_written("reason", {}, _value(call.args[0], known)))
        elif name == "BadRecord":
            why, remedy = (_value(argument, known) for argument in call.args)
            entries.append(_written("bad record", {}, (why, "; ", remedy)))
        elif isinstance(call.func, ast.Attribute) and not _is_format(call):
            entries.append(_note_entry(name, call, known))
    if not entries:
        return []
    return [f"# {path.relative_to(PACKAGE.parent)}", "", *dict.fromkeys(entries)]


def _name_of(call: ast.Call) -> str:
    """The name of what is called, without its module or object."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _calls(
    path: Path, imported: dict[str, ast.expr], names: Container[str]
) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    """The calls of these names in the functions of a file, with the texts that are known there."""
    statements, functions = _parsed(path)
    constants = imported | _assigned(statements)
    for nodes in functions:
        yield from _calls_of_function(nodes, constants, names)


@functools.cache
def _parsed(path: Path) -> tuple[list[ast.stmt], list[list[ast.AST]]]:
    """The statements of a file, and the nodes of each of its functions, the function first."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    in_order = sorted(functions, key=lambda function: function.lineno)
    return tree.body, [list(ast.walk(function)) for function in in_order]


def _calls_of_function(
    nodes: list[ast.AST], constants: dict[str, ast.expr], names: Container[str]
) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    inner = {
        node
        for nested in nodes[1:]
        if isinstance(nested, ast.FunctionDef)
        for node in ast.walk(nested)
    }
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and _name_of(node) in names and node not in inner
    ]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        known = constants | _assigned(
            node for node in nodes if isinstance(node, ast.stmt) and node.lineno <= call.lineno
        )
        yield call, known


def _is_format(call: ast.Call) -> bool:
    """Whether it passes on a text to Python's log."""
    return bool(call.args) and ast.unparse(call.args[0]) == "'%s'"


def _note_entry(name: str, call: ast.Call, known: dict[str, ast.expr]) -> str:
    arguments = call.args
    if ast.unparse(call.func) == "warnings.warn":
        arguments = arguments[:1]  # the others are the category and the place
    return _written(name, {}, tuple(_value(argument, known) for argument in arguments))


def _error_entry(kind: type[EmbedxError], call: ast.Call, known: dict[str, ast.expr]) -> str:
    """The entry of an error, which is made of the templates."""
    bound = _bound(kind, call, known)
    fields = bound.arguments
    try:
        parts = kind(*bound.args, **bound.kwargs).parts
    except TypeError:  # it computes with what only a run knows
        texts = [fields[name] for name in fields if name in TEXTS]
        parts = tuple(part for text in texts for part in ("; ", text))[1:]
    return _written(kind.__name__, fields, parts)


def _bound(
    kind: type[EmbedxError], call: ast.Call, known: dict[str, ast.expr]
) -> inspect.BoundArguments:
    """The arguments of an error by name, as templates."""
    arguments = [_value(argument, known) for argument in call.args]
    keywords = {word.arg: _value(word.value, known) for word in call.keywords if word.arg}
    bound = inspect.signature(kind).bind(*arguments, **keywords)
    for name, value in bound.arguments.items():
        if name not in ("setting", "value", "line"):
            bound.arguments[name] = _text(value)
    return bound


def _written(kind: str, fields: dict[str, object], text: object) -> str:
    shown = {name: value for name, value in fields.items() if name not in TEXTS}
    heading = " ".join([kind, *(f"{name}={value}" for name, value in shown.items())])
    message = EmbedxError(_text(text))
    lines = dict.fromkeys(
        spelled(message.parts, _of_templates(spelling)) for spelling in (on_command_line, in_python)
    )
    return "\n".join([heading, *(f"    {line}" for line in lines), ""])


def _of_templates(spelling: Spelling) -> Spelling:
    """The spelling of settings of which only a run knows the name or the value."""

    def spelled_as_template(setting: Setting) -> str:
        name = setting.name
        value = setting.value
        if isinstance(name, Template):
            shown = value.source if isinstance(value, Template) else repr(value)
            arguments = name.source if value is None else f"{name.source}, {shown}"
            return f"{{Setting({arguments})}}"
        if not isinstance(value, Template):
            return spelling(setting)
        line = spelling(replace(setting, value="VALUE"))
        return line.replace("'VALUE'", "VALUE").replace("VALUE", str(value))

    return spelled_as_template


def _text(value: object) -> object:
    """A value as part of a message."""
    if isinstance(value, tuple):
        return tuple(map(_text, value))
    return value if isinstance(value, Setting) else str(value)


def _value(node: ast.expr, known: dict[str, ast.expr], depth: int = 0) -> object:
    """What an expression is, as far as the source says."""
    if depth < 8:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return "".join(_piece(part, known, depth) for part in node.values)
        if isinstance(node, ast.Tuple):
            return tuple(_value(item, known, depth + 1) for item in node.elts)
        if isinstance(node, (ast.Name, ast.Attribute)) and ast.unparse(node) in known:
            name = ast.unparse(node)
            others = {key: value for key, value in known.items() if key != name}
            return _value(known[name], others, depth + 1)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Setting":
            values = [_value(argument, known, depth + 1) for argument in node.args]
            return Setting(*values)
    return Template(_source(node))


def _piece(part: ast.expr, known: dict[str, ast.expr], depth: int) -> str:
    """A part of an f-string: text, the text that a name stands for, or an expression."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    if isinstance(part, ast.FormattedValue) and not part.format_spec:
        value = _value(part.value, known, depth + 1)
        if isinstance(value, str):
            return value
        assert not isinstance(value, (tuple, Setting)), f"a string with {value} in it"
    return f"{{{_source(part)}}}"


def _source(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return ast.unparse(ast.JoinedStr([node]))[3:-2]
    return ast.unparse(node)


def _imported(path: Path) -> dict[str, ast.expr]:
    """The texts that a module has from others, by the names that it calls them."""
    if path.stem == "__main__":
        return {}
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    name = name.removesuffix(".__init__")
    values = {}
    for key, value in vars(importlib.import_module(name)).items():
        if isinstance(value, str) and key.isupper() and not os.path.isabs(value):
            values[key] = ast.Constant(value)
        elif isinstance(value, ModuleType) and isinstance(getattr(value, "DESCRIPTION", 0), str):
            values[f"{key}.DESCRIPTION"] = ast.Constant(value.DESCRIPTION)
    return values


def _assigned(statements) -> dict[str, ast.expr]:
    """The last value of each name that a simple assignment gives."""
    values = {}
    for statement in sorted(
        (node for node in statements if isinstance(node, (ast.Assign, ast.AnnAssign))),
        key=lambda statement: statement.lineno,
    ):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and statement.value is not None:
            values[targets[0].id] = statement.value
    return values
