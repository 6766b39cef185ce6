"""Commands: their options from settings and files, other programs' names for these, and
the help.
"""

import difflib
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from embedx.cli.aliases import COMMANDS_INSTEAD, INSTEAD, long_names, own_name
from embedx.cli.config import words_of
from embedx.cli.files import check_outputs
from embedx.cli.options import SHORT_HELP, Option, as_option, documented, keyword, set_option
from embedx.cli.requests import parameters_of, request_of
from embedx.errors import EmbedxError
from embedx.settings import on_command_line

# typer does not export the base class of its errors
UsageError: Any = typer.BadParameter.__mro__[1]


def help_formatter() -> Any:
    """What writes text and lists as the help does: wrapped to the terminal."""
    return typer.Context(TyperCommand("help")).make_formatter()


def write_sections(
    formatter: Any, rows: Iterable[tuple[Any, tuple[str, str]]], otherwise: str
) -> None:
    """The sections of a help: commands or options, each with its name and its text; `otherwise` is
    the default title.
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    for each, row in rows:
        sections.setdefault(getattr(each, "rich_help_panel", None) or otherwise, []).append(row)
    for title, found in sections.items():
        with formatter.section(title):
            formatter.write_dl(found)


class Group(TyperGroup):
    """Commands, whose help has them by sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(each, (name, first_sentence(each.help))) for name, each in self.commands.items()]
        write_sections(formatter, rows, "Commands")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS_INSTEAD:
            raise EmbedxError(f"no command {cmd_name}: {COMMANDS_INSTEAD[cmd_name]}")
        return super().get_command(ctx, "export" if cmd_name == "convert" else cmd_name)


def first_clause(text: str) -> str:
    """The first clause of the text about an option, and all that is said of its default."""
    meaning, bracket, default = text.partition("  [")
    first, *others = meaning.split("; ")
    return (
        "; ".join([first, *(each for each in others if each.startswith("by default "))])
        + bracket
        + default
    )


def first_sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


class Command(TyperCommand):
    """A command that takes other programs' names for its options, and options from a file."""

    settings: Mapping[str, Option] = {}  # by name

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command, after translating names and reading --config. Raises `EmbedxError` for
        wrong usage.
        """
        known = {
            name.lstrip("-")
            for each in self.get_params(ctx)
            for name in (*each.opts, *each.secondary_opts)
        }
        ctx.token_normalize_func = partial(own_name, known=known)
        args = long_names(args, known)
        for name, value in itertools.zip_longest(args, args[1:]):
            if name.startswith("-") and (value == "" or name.endswith("=")):
                raise EmbedxError(
                    f"{name.rstrip('=')} '': an empty value; give one, or leave"
                    f" {name.rstrip('=')} out"
                )
        path, in_file = None, []
        try:
            path = self.make_parser(ctx).parse_args(list(args))[0].get("config")
            if path is not None and not ctx.resilient_parsing:  # as for a shell that completes
                in_file = words_of(Path(path), self)
            return super().parse_args(ctx, [*in_file, *args])
        except (UsageError, EmbedxError) as error:
            message = (
                error.spelled(on_command_line)
                if isinstance(error, EmbedxError)
                else self._remedy(error, known)
            )
            option = re.search(r"--[\w-]+", message)
            has = [
                option and any(word.split("=")[0] == option[0] for word in words)
                for words in (in_file, args)
            ]
            raise EmbedxError(f"{path}: {message}" if has == [True, False] else message) from error

    def _remedy(self, error: Any, known: Iterable[str]) -> str:
        """One line about wrong usage."""
        if not hasattr(error, "possibilities"):
            return f"{error.format_message().rstrip('.')}; see --help"
        name = error.option_name.lstrip("-")
        if name in INSTEAD:
            return f"--{name}: {INSTEAD[name]}"
        fine = [
            each.field.name.replace("_", "-") for each in self.settings.values() if each.is_fine
        ]
        written = {each: f"--{each}" for each in known} | {
            each: f"--set {each}=VALUE" for each in fine
        }
        near = [
            written[each] for each in difflib.get_close_matches(name, written, n=1, cutoff=0.65)
        ]
        return f"{error.message}; {''.join(f'did you mean {each}? ' for each in near)}see --help"

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options by sections; where some are hidden, the others in one section, each with its
        first clause.
        """
        known = self.get_params(ctx)
        is_short = any(getattr(each, "hidden", False) for each in known)
        rows: list[Any] = []
        for each in known:
            if (row := each.get_help_record(ctx)) is not None:
                is_option = row[0].startswith("-")
                # a name says the type of an argument
                name, text = row if is_option else (row[0].split()[0], row[1])
                rows.append(
                    (None, (name, first_clause(text)))
                    if is_short and is_option
                    else (each, (name, text))
                )
        write_sections(formatter, rows, "Options")


def show_all(ctx: Any, wanted: bool) -> None:
    """Print the help with all options."""
    if wanted:
        for each in ctx.command.params:
            each.hidden = False
        print(ctx.get_help())
        raise typer.Exit


CONFIG_TEXT = "TOML file of options, such as epochs = 5; the command line has priority"
CONFIG = Annotated[Path | None, typer.Option(help=CONFIG_TEXT, rich_help_panel="Configuration")]
HELP_ALL = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=show_all, help="Show all options.")
]


def with_settings(
    name: str, command: Callable[..., None], settings: Mapping[str, Option]
) -> Callable[..., None]:
    """The command with its settings as options; it gets those that were given as `typed`, by name.

    name  of the command, as it is typed after `embedx`
    """
    text, texts = documented(command)
    of_command = parameters_of(command)
    request = request_of(command)
    options = [each for each in settings.values() if not each.is_fine]
    parameters = [
        *(as_option(each, texts) for each in of_command),
        *(each.parameter() for each in options),
    ]
    fine = {each.field.name.replace("_", "-"): each for each in settings.values() if each.is_fine}
    if fine:
        parameters.append(set_option(name, fine))
    if shown := SHORT_HELP.get(name, ()):
        parameters += [keyword("config", CONFIG), keyword("help_all", HELP_ALL, False)]
        # a shell completes all
        for each in parameters if "_EMBEDX_COMPLETE" not in os.environ else ():
            about = each.annotation.__metadata__[0]
            about.hidden = isinstance(about, OptionInfo) and each.name not in (*shown, "help_all")

    def run(**given: Any) -> None:
        given.pop("config", None)
        given.pop("help_all", None)
        typed = {each.field.name: given.pop(each.field.name) for each in options} | dict(
            given.pop("set_", None) or []
        )
        typed = {setting: value for setting, value in typed.items() if value is not None}
        check_outputs(given | typed)
        if request is not None:
            command(request(**given, typed=typed))
        else:
            command(**given, **({"typed": typed} if settings else {}))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = text
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
