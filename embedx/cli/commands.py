"""Commands: their options are made from settings and from the fields of requests, what is typed
becomes a request, and other programs' names and a file of options are taken too.
"""

import difflib
import inspect
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from embedx.cli.aliases import INSTEAD, long_names, own_name
from embedx.cli.config import words_of
from embedx.cli.files import check_outputs
from embedx.cli.help import SHORT_HELP, first_clause, show_all, write_sections
from embedx.cli.request_options import as_option, documented, keyword, with_formats
from embedx.cli.requests import parameters_of, request_of
from embedx.cli.setting_options import Option, command_with, set_option
from embedx.errors import DataError, EmbedxError, Setting, Text
from embedx.spelling import option_name

# typer does not export the base class of its errors
UsageError: Any = typer.BadParameter.__mro__[1]


class Command(TyperCommand):
    """A command that takes other programs' names for its options, and options from a file."""

    # By name.
    settings: Mapping[str, Option] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command, after translating names and reading --config. Raises `EmbedxError` for
        wrong usage.
        """
        parameters = self.get_params(ctx)
        known_names = {
            name.lstrip("-")
            for parameter in parameters
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        ctx.token_normalize_func = partial(own_name, known=known_names)
        args = long_names(args, known_names)
        _check_no_empty_value(args)

        path = None
        file_args: list[str] = []
        try:
            path = self.make_parser(ctx).parse_args(list(args))[0].get("config")
            # A shell that completes needs no options of a file.
            if path is not None and not ctx.resilient_parsing:
                file_args = words_of(Path(path), self)
            return super().parse_args(ctx, [*file_args, *args])
        except (UsageError, EmbedxError) as error:
            arguments = [p.name for p in parameters if p.param_type_name == "argument"]
            problem: Text = self._usage_message(error, known_names, arguments)
            if _is_about_file(self._option_at_fault(error), file_args, args):
                raise DataError(path, None, problem) from error
            if isinstance(error, EmbedxError):
                raise
            raise EmbedxError(problem) from error

    def _usage_message(
        self, error: Any, known_names: Iterable[str], arguments: Iterable[str]
    ) -> Text:
        """One line about wrong usage.

        arguments  the names among the known ones that are written without `--`
        """
        if isinstance(error, EmbedxError):
            return error.parts
        if not hasattr(error, "possibilities"):
            return f"{error.format_message().rstrip('.')}; see --help"
        name = error.option_name.lstrip("-")
        if name in INSTEAD:
            return f"--{name}: {INSTEAD[name]}"
        # `-q` was made `--q`, as `-size` is `--size`.
        message = error.message
        if len(name) == 1:
            message = message.replace(f"--{name}", f"-{name}")

        spellings = {known: f"--{known}" for known in known_names}
        spellings |= {argument: f"the argument {argument.upper()}" for argument in arguments}
        for option in self.settings.values():
            if option.is_given_by_set:
                spellings[option.typed_name] = f"--set {option.typed_name}=VALUE"
        matches = difflib.get_close_matches(name, spellings, n=1, cutoff=0.65)
        if matches:
            return f"{message}; did you mean {spellings[matches[0]]}? see --help"
        other = command_with(name, besides=str(self.name))
        if other is not None:
            return f"{message}; `embedx {other}` takes it"
        return f"{message}; see --help"

    def _option_at_fault(self, error: Any) -> str | None:
        """The option that an error is about, as it is typed; None where it is about none."""
        if isinstance(error, EmbedxError):
            without_option = {
                name for name, option in self.settings.items() if option.is_given_by_set_here
            }
            names = [part.name for part in error.parts if isinstance(part, Setting)]
            return option_name(names[0], without_option).split()[0] if names else None
        if hasattr(error, "option_name"):
            return str(error.option_name)
        parameter = getattr(error, "param", None)
        return None if parameter is None else str(parameter.opts[0])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by sections.

        Where some are hidden, the others are in one section, each with its first clause.
        """
        parameters = self.get_params(ctx)
        is_short = any(getattr(parameter, "hidden", False) for parameter in parameters)
        rows: list[tuple[Any, tuple[str, str]]] = []
        for parameter in parameters:
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            name, text = record
            if not name.startswith("-"):
                # The record of an argument has its type after its name.
                rows.append((parameter, (name.split()[0], text)))
            elif is_short:
                rows.append((None, (name, first_clause(text))))
            else:
                rows.append((parameter, (name, text)))
        write_sections(formatter, rows, "Options")
        if not is_short:
            self._write_fine_settings(formatter)

    def _write_fine_settings(self, formatter: Any) -> None:
        """Write the settings that are given by --set: those for any objective, then the names of
        those of each objective.
        """
        rows = []
        names_by_objective: dict[str, list[str]] = {}
        for option in self.settings.values():
            if not option.is_given_by_set:
                continue
            if option.is_of_some_objectives:
                for objective in option.objectives:
                    names_by_objective.setdefault(objective, []).append(option.typed_name)
            else:
                rows.append((option.typed_name, option.help()))
        if rows:
            with formatter.section("Less common settings, each given as --set NAME=VALUE"):
                formatter.write_dl(rows)
        if names_by_objective:
            with formatter.section("Settings of objectives, each given as --set NAME=VALUE"):
                formatter.write_dl(
                    [(name, ", ".join(names)) for name, names in names_by_objective.items()]
                )
                formatter.write_text("`embedx objectives NAME` explains those of an objective.")


def _check_no_empty_value(args: list[str]) -> None:
    """Raise `EmbedxError` for an option whose value is empty."""
    for word, next_word in itertools.zip_longest(args, args[1:]):
        if word.startswith("-") and (next_word == "" or word.endswith("=")):
            name = word.rstrip("=")
            raise EmbedxError(f"{name} '': an empty value; give one, or leave {name} out")


def _is_about_file(option: str | None, file_args: list[str], args: list[str]) -> bool:
    """Whether an option at fault is one that only the file of options has."""
    if option is None:
        return False
    return _has_option(file_args, option) and not _has_option(args, option)


def _has_option(args: list[str], option: str) -> bool:
    """Whether an option is among the words of a command line."""
    return any(word.split("=")[0] == option for word in args)


CONFIG_TEXT = "TOML file of options, such as epochs = 5; the command line has priority"
CONFIG = Annotated[Path | None, typer.Option(help=CONFIG_TEXT, rich_help_panel="Configuration")]
HELP_ALL = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=show_all,
        help="Show all options, and settings of --set.",
    ),
]


def with_settings(
    name: str,
    command: Callable[..., None],
    options: Mapping[str, Option],
    shows_options: bool,
) -> Callable[..., None]:
    """The command with its settings as options; it gets those that were given as `options`, by
    name.

    name           of the command, as it is typed after `embedx`
    shows_options  whether its own help may be asked for
    """
    text, texts = documented(command)
    if shows_options:
        texts = with_formats(texts)
    request_class = request_of(command)
    with_flags = [option.field.name for option in options.values() if not option.is_given_by_set]
    parameters = _parameters(name, command, options, texts)

    def run(**arguments: Any) -> None:
        arguments.pop("config", None)
        arguments.pop("help_all", None)
        given = {setting: arguments.pop(setting) for setting in with_flags}
        given |= dict(arguments.pop("set_", None) or [])
        given = {setting: value for setting, value in given.items() if value is not None}

        check_outputs(arguments | given)
        if options:
            arguments["options"] = given
        if request_class is not None:
            command(request_class(**arguments))
        else:
            command(**arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = text
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(
    name: str,
    command: Callable[..., None],
    options: Mapping[str, Option],
    texts: Mapping[str, str],
) -> list[inspect.Parameter]:
    """The arguments and options of a command as typer wants them.

    texts  of the help, by parameter
    """
    parameters = [as_option(parameter, texts) for parameter in parameters_of(command)]
    parameters += [option.parameter() for option in options.values() if not option.is_given_by_set]
    given_by_set = {
        option.typed_name: option for option in options.values() if option.is_given_by_set
    }
    if given_by_set:
        parameters.append(set_option(name, given_by_set))

    shown = SHORT_HELP.get(name, ())
    if shown:
        parameters += [keyword("config", CONFIG), keyword("help_all", HELP_ALL, False)]
        # A shell completes all options.
        if "_EMBEDX_COMPLETE" not in os.environ:
            _hide(parameters, {*shown, "help_all"})
    return parameters


def _hide(parameters: Iterable[inspect.Parameter], shown: Collection[str]) -> None:
    """Leave all options but those shown out of --help."""
    for parameter in parameters:
        about = parameter.annotation.__metadata__[0]
        about.hidden = isinstance(about, OptionInfo) and parameter.name not in shown
