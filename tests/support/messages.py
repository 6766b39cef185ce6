"""All messages of the package, read from its source: kind, fields as templates, both renderings.

What is computed when a message is made stands there as its expression in braces.
"""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import embedx
from embedx.cli.options import SETTINGS
from embedx.errors import EmbedxError, Setting, in_python, spelled
from embedx.settings import on_command_line

PACKAGE = Path(embedx.__file__).parent
FIELDS = {
    "SettingError": ("setting", "value", "problem", "remedy"),
    "InapplicableError": ("setting", "value", "problem", "remedy"),
    "DataError": ("file", "line", "problem", "remedy"),
    "NotTextError": ("file", "problem", "remedy"),
    "NoMemoryError": ("purpose", "need", "available", "remedy"),
    "LostClusterError": ("problem", "remedy"),
    "DivergedError": ("problem", "remedy"),
    "RescuedError": ("problem", "remedy"),
    "EmbedxError": ("problem",),
}
# Of progress: what is shown to the user, too.
NOTES = ("note", "warn", "detail")


class Template:
    """The value of an expression that only a run knows."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __str__(self) -> str:
        return f"{{{self.source}}}"

    __repr__ = __str__


def messages() -> str:
    """An entry for each message, in the order of the files and lines."""
    for options in SETTINGS.values():
        options()  # declares the settings that are given by --set
    return "\n".join(entry for path in sorted(PACKAGE.rglob("*.py")) for entry in _entries(path))


def _entries(path: Path) -> list[str]:
    tree = ast.parse(path.read_text("utf-8"))
    constants = _imported(path) | _assigned(tree.body)
    entries = []
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in sorted(functions, key=lambda function: function.lineno):
        entries += _entries_of_function(function, constants)
    if not entries:
        return []
    return [f"# {path.relative_to(PACKAGE.parent)}", "", *dict.fromkeys(entries)]


def _entries_of_function(function: ast.FunctionDef, constants: dict[str, ast.expr]) -> list[str]:
    inner = {
        node
        for nested in ast.walk(function)
        if isinstance(nested, ast.FunctionDef) and nested is not function
        for node in ast.walk(nested)
    }
    calls = [
        node for node in ast.walk(function) if isinstance(node, ast.Call) and node not in inner
    ]
    entries = []
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        known = constants | _assigned(
            node
            for node in ast.walk(function)
            if isinstance(node, ast.stmt) and node.lineno <= call.lineno
        )
        if isinstance(call.func, ast.Name) and call.func.id in FIELDS:
            entries.append(_error_entry(call.func.id, call, known))
        elif _is_note(call.func):
            text = tuple(_value(argument, known) for argument in call.args)
            entries.append(_written(call.func.attr, {}, text))
    return entries


def _is_note(function: ast.expr) -> bool:
    """Whether it is a method of progress, and not of Python's warnings."""
    if not isinstance(function, ast.Attribute) or function.attr not in NOTES:
        return False
    return ast.unparse(function.value) != "warnings"


def _error_entry(kind: str, call: ast.Call, known: dict[str, ast.expr]) -> str:
    names = FIELDS[kind]
    fields = {
        name: _value(argument, known) for name, argument in zip(names, call.args, strict=False)
    }
    fields |= {
        keyword.arg: _value(keyword.value, known) for keyword in call.keywords if keyword.arg
    }
    place = fields.get("file", "")
    if fields.get("line") is not None:
        place = f"{place}:{fields['line']}"
    if kind == "LostClusterError":
        fields["setting"] = "cluster"
    if "setting" in fields:
        place = Setting(str(fields["setting"]), fields.get("value"))
    separator = " " if kind == "InapplicableError" else ": "
    text = (place, separator) if place else ()
    remedy = fields.get("remedy")
    rest = (_text(fields.get("problem", fields.get("purpose", ""))),)
    if remedy:
        rest += ("; ", _text(remedy))
    return _written(kind, fields, (_text(text), *rest))


def _written(kind: str, fields: dict[str, object], text: object) -> str:
    shown = {name: value for name, value in fields.items() if name not in ("problem", "remedy")}
    heading = " ".join([kind, *(f"{name}={value}" for name, value in shown.items())])
    message = EmbedxError(_text(text))
    lines = dict.fromkeys(
        spelled(message.parts, spelling) for spelling in (on_command_line, in_python)
    )
    return "\n".join([heading, *(f"    {line}" for line in lines), ""])


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
            return Setting(str(values[0]), *values[1:])
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
        if isinstance(value, str) and key.isupper():
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
