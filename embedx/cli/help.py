"""Commands: their options from settings and files, other programs' names for these, and the help."""

import difflib
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from embedx.cli import config
from embedx.cli.aliases import INSTEAD, long_names, own_name
from embedx.cli.options import CONFIG, PANELS, SHORT_HELP, Option, as_option, documented, read_set
from embedx.errors import EmbedxError
from embedx.settings import check

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export the base class of its errors
MAX_COLUMN = 30  # characters of the names in a help


def write_rows(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A section of a help: names, and beside them texts, which are not broken at hyphens."""
    rows = list(rows)
    column = min(max(len(name) for name, _ in rows), MAX_COLUMN) + 4
    with formatter.section(title):
        for name, text in rows:
            is_long = len(name) + 4 > column
            if is_long:
                formatter.write(f"  {name}\n")
            first = " " * column if is_long else f"  {name}".ljust(column)
            lines = textwrap.wrap(text, formatter.width - column, break_on_hyphens=False) or [""]
            formatter.write(first + f"\n{' ' * column}".join(lines) + "\n")


class Group(TyperGroup):
    """Commands, whose help has them by sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, each in self.commands.items():
            title = getattr(each, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name, first_sentence(each.help)))
        for title, rows in sections.items():
            write_rows(formatter, title, rows)


def shortened(text: str) -> str:
    """The meaning of an option without details, and its default."""
    meaning, mark, default = text.partition("  [default")
    return meaning.split("; ")[0] + mark + default


def first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


class Command(TyperCommand):
    """A command that takes other programs' names for its options, and options from a file."""

    settings: Mapping[str, Option] = {}  # by name
    shown: tuple[str, ...] = ()  # the options in its short help, if it has one
    is_short = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command, after translating names. Raises `EmbedxError` for wrong usage."""
        known = {name.lstrip("-") for each in self.get_params(ctx) for name in (*each.opts, *each.secondary_opts)}
        ctx.token_normalize_func = partial(own_name, known=known)
        args = long_names(args, known)
        self.is_short = bool(self.shown) and "--help-all" not in args
        if self.shown and not self.is_short:
            args = ["--help"]
        for name, value in itertools.zip_longest(args, args[1:]):
            if name.startswith("-") and (value == "" or name.endswith("=")):
                raise EmbedxError(f"{name.rstrip('=')} '': an empty value; give one, or leave {name.rstrip('=')} out")
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise EmbedxError(self._remedy(error, known)) from error

    def _remedy(self, error: Any, known: Iterable[str]) -> str:
        """One line about wrong usage."""
        if not hasattr(error, "possibilities"):
            return f"{error.format_message().rstrip('.')}; see --help"
        name = error.option_name.lstrip("-")
        if name in INSTEAD:
            return f"--{name}: {INSTEAD[name]}"
        fine = {each.field.name.replace("_", "-") for each in self.settings.values() if each.is_fine}
        found = difflib.get_close_matches(name, [*known, *fine], n=1, cutoff=0.65)
        meant = [f"--set {each}=VALUE" if each in fine else f"--{each}" for each in found]
        return f"{error.message}; {''.join(f'did you mean {each}? ' for each in meant)}see --help"

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options by sections; in a short help the most important ones."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if (record := each.get_help_record(ctx)) is None:
                continue
            title = getattr(each, "rich_help_panel", None) or "Options"
            if each.param_type_name == "argument":
                title = "Arguments"
            elif self.is_short:
                if each.name not in (*self.shown, "help"):
                    continue
                title, record = "Options", (record[0], shortened(record[1]))
            sections.setdefault(title, []).append(record)
        if self.is_short:
            sections["Options"].append(("--help-all", "Show all options."))
        for title, rows in sections.items():
            write_rows(formatter, title, rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if not self.is_short:
            super().format_epilog(ctx, formatter)


def command_class(name: str, settings: Mapping[str, Option]) -> type[Command]:
    """The class of a command with these settings."""
    return type("SettingsCommand", (Command,), {"settings": settings, "shown": SHORT_HELP.get(name, ())})


def with_settings(
    name: str, command: Callable[..., None], settings: Mapping[str, Option], has_config: bool
) -> Callable[..., None]:
    """The command with its settings as options; it gets those that were given as `typed`, by name.

    name        of the command, as it is typed after `embedx`
    has_config  whether its options may be read from a file, and saved
    """
    text, texts = documented(command)
    of_command = [each for each in inspect.signature(command).parameters.values() if each.name != "typed"]
    options = [each for each in settings.values() if not each.is_fine]
    added: dict[str, Any] = {"set_": list[str] | None} if len(options) < len(settings) else {}
    added |= {"config": CONFIG, "save_config": Path | None} if has_config else {}
    keyword = inspect.Parameter.KEYWORD_ONLY
    of_command += [inspect.Parameter(each, keyword, default=None, annotation=kind) for each, kind in added.items()]
    parameters = [*(as_option(each, texts) for each in of_command), *(each.parameter() for each in options)]
    parameters.sort(key=_place)

    def run(**given: Any) -> None:
        typed = {each.field.name: given.pop(each.field.name) for each in options}
        typed = {setting: value for setting, value in typed.items() if value is not None}
        typed |= given.pop("config", None) or {}  # fine settings in the file
        typed |= read_set(given.pop("set_", None) or [], settings, name)
        if path := given.pop("save_config", None):
            for setting, value in typed.items():  # an invalid value is not saved
                check(settings[setting].field, value)
            config.save(path, config.given(given, parameters) | typed, f"embedx {name}", overwrite=given["overwrite"])
        command(**given, **({"typed": typed} if settings else {}))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = text
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _place(parameter: inspect.Parameter) -> int:
    """By which the sections of a help are sorted: arguments first, options without a section last."""
    about = parameter.annotation.__metadata__[0]
    if isinstance(about, ArgumentInfo):
        return -1
    return PANELS.index(about.rich_help_panel) if about.rich_help_panel in PANELS else len(PANELS)
