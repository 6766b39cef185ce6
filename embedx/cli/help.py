"""Commands: their options from settings and files, other programs' names for these, and help in sections."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typer.core import TyperCommand
from typer.models import ArgumentInfo

from embedx.cli import config
from embedx.cli.aliases import translated, value_of
from embedx.cli.options import PANELS, Config, Option, SaveConfig, Set, read_set
from embedx.errors import EmbedxError
from embedx.settings import check, kind_of

REMOVED = {  # options of earlier versions, with what to write now
    "--help-all": "write --help, or `embedx objectives NAME` for the settings of an objective",
    "--share": "write --block-size",
    "--query": "write --scored-fraction for `embedx predict`, --set scored-fraction=VALUE for training",
    "--keep": "write --set candidate-fraction=VALUE",
    "--tau": "write --set min-coefficient=VALUE",
    "--categories": "cluster the vectors of embedx.load(MODEL) with scikit-learn",
    "--outliers": "compare the vectors of embedx.load(MODEL) in Python",
    "--log-json": "an option of training; the page has the loss of each epoch",
    "--license": "write the licence into README.md of the exported folder",
}


class Command(TyperCommand):
    """A command that accepts other programs' names for its options, and options in a file."""

    settings: Mapping[str, Option] = {}  # by name
    has_config = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command, after translating names; the options of --config come before those that were typed."""
        if not ctx.resilient_parsing:
            known = self.known(ctx)
            args = translated(args, known)
            self._refuse_moved(args, known)
            path = value_of(args, "--config") if self.has_config else None
            if path is not None:
                args = [*config.read(path, known, self.settings, f"embedx {self.name}"), *args]
        return super().parse_args(ctx, args)

    def known(self, ctx: Any) -> dict[str, bool]:
        """The options, each with whether a value follows it."""
        options = [each for each in self.get_params(ctx) if each.param_type_name == "option"]
        return {name: not getattr(each, "is_flag", False) for each in options for name in [*each.opts, *each.secondary_opts]}

    def _refuse_moved(self, args: Sequence[str], known: Mapping[str, bool]) -> None:
        """Raise `EmbedxError` for an option that is now given by --set, or is gone."""
        fine = {name.replace("_", "-"): each for name, each in self.settings.items() if each.is_fine}
        for word, following in zip(args, [*args, "VALUE"][1:], strict=True):
            given, _, value = word.partition("=")
            if word == "--":
                return
            if given in known or not given.startswith("--"):
                continue
            if given in REMOVED:
                raise EmbedxError(f"{given}: no longer an option; {REMOVED[given]}")
            name = given[2:].replace("_", "-")
            is_off = name.startswith("no-") and name not in fine
            name = name.removeprefix("no-") if is_off else name
            if name in fine:
                if kind_of(fine[name].field) is bool:
                    typed, value = given, "no" if is_off else "yes"
                else:
                    value = value or following
                    typed = f"{given} {value}"
                raise EmbedxError(f"{typed}: write --set {name}={value}")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """On a terminal by rich, which must not take [default: 5] for markup."""
        if sys.stdout.isatty():
            from rich.markup import escape

            each: Any
            for each in self.get_params(ctx):
                each.help = escape(getattr(each, "help", None) or "")
        super().format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The sections of the help in plain text."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                title = getattr(each, "rich_help_panel", None) or ("Help" if each.name == "help" else "Options")
                title = "Arguments" if each.param_type_name == "argument" else title
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class OtherPrograms(TyperCommand):
    """A command with another program's own options, single dashes and all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = args if args[:1] in (["--help"], ["-h"]) else ["--", *args]
        return super().parse_args(ctx, words if args else ["--help"])


def command_class(settings: Mapping[str, Option], has_config: bool) -> type[Command]:
    """The class of a command with these settings."""
    return type("SettingsCommand", (Command,), {"settings": settings, "has_config": has_config})


def with_settings(
    name: str, command: Callable[..., None], settings: Mapping[str, Option], has_config: bool
) -> Callable[..., None]:
    """The command with its settings as options; it gets those that were given as `typed`, by name.

    name        of the command, as it is typed after `embedx`
    has_config  whether its options may be read from a file, and saved
    """
    parameters = list(inspect.signature(command).parameters.values())
    takes_settings = "typed" in (each.name for each in parameters)
    parameters = [each for each in parameters if each.name != "typed"]
    parameters += [each.parameter() for each in settings.values() if not each.is_fine]
    added = {"set_": Set} if any(each.is_fine for each in settings.values()) else {}
    added |= {"config": Config, "save_config": SaveConfig} if has_config else {}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [inspect.Parameter(each, keyword, default=None, annotation=kind) for each, kind in added.items()]
    parameters = [each.replace(kind=keyword) for each in parameters]
    parameters.sort(key=_place)

    def run(**given: Any) -> None:
        typed = {setting: given.pop(setting) for setting, each in settings.items() if not each.is_fine}
        typed = {setting: value for setting, value in typed.items() if value is not None}
        typed |= read_set(given.pop("set_", None) or [], settings, name)
        given.pop("config", None)
        if path := given.pop("save_config", None):
            for setting, value in typed.items():  # an invalid value is not saved
                check(settings[setting].field, value)
            values = config.given(given, parameters) | typed
            config.save(path, values, f"embedx {name}", overwrite=given["overwrite"])
        command(**given, **({"typed": typed} if takes_settings else {}))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _place(parameter: inspect.Parameter) -> int:
    """By which the sections of a help are sorted: arguments first, options without a section last."""
    about = parameter.annotation.__metadata__[0]
    if isinstance(about, ArgumentInfo):
        return -1
    return PANELS.index(about.rich_help_panel) if about.rich_help_panel in PANELS else len(PANELS)
