"""Commands whose help is in parts, and tells of an objective's own options only to those who chose it or ask for all."""

import copy
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from embedx.cli import config
from embedx.cli.aliases import told, translated, value_of

# The parts, in their order; what is in none of them stands last.
PANELS = (
    "", "Data", "Objective", "Model", "Training", "Output", "Text", "Vocabulary", "Sampler", "Held-out text", "Held-out data",
    "Validation", "Phrases", "Going on from a model", "With --collapsed", "Cluster",
    "Long runs", "Settings in a file",
)  # fmt: skip
HELP = "Help"


def show_all(context: typer.Context, is_wanted: bool) -> None:
    """Print the help; that it is the whole, the command knows from its words."""
    if is_wanted:
        print(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=show_all,
        help="show the options of all objectives too, and exit",
        rich_help_panel=HELP,
    ),
]


class Command(TyperCommand):
    """A command that takes other programs' names for its options, and settings from a file."""

    keys: Mapping[str, config.Key] = {}  # what such a file may hold
    objectives: Mapping[str, Sequence[str]] = {}  # parameters of objectives' own: those that take them
    chosen: str | None = None  # objective
    shows_all: bool = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command, with our names for options and the values of --config where nothing was typed."""
        if not ctx.resilient_parsing:
            args = translated(args, self.known(ctx))
            path = value_of(args, "--config") if self.keys else None
            if path is not None:
                ctx.default_map = {**(ctx.default_map or {}), **config.read(path, self.keys, f"embedx {self.name}")}
        return super().parse_args(ctx, args)

    def known(self, ctx: Any) -> dict[str, bool]:
        """The options, each with whether a value follows it."""
        options = [each for each in self.get_params(ctx) if each.param_type_name == "option"]
        return {name: not getattr(each, "is_flag", False) for each in options for name in [*each.opts, *each.secondary_opts]}

    def shown(self, ctx: Any) -> list[Any]:
        """The parameters that the help explains, in the order of its parts."""
        found = [each for each in self.get_params(ctx) if not getattr(each, "hidden", False) and self._is_told(each.name)]
        return sorted(found, key=lambda each: _place(_panel(each)))

    def _is_told(self, name: str) -> bool:
        takers = self.objectives.get(name, ())
        return self.shows_all or not takers or self.chosen in takers

    def _last_words(self, ctx: Any) -> str | None:
        """What the help ends with."""
        if not self.objectives:
            return None
        if self.shows_all:
            return told(self.known(ctx))
        return (
            f"{ctx.command_path} --objective NAME --help shows the options of that objective, --help-all those of all, and the "
            "names of word2vec.c, gensim and fastText that are taken too; `embedx objectives` lists objectives."
        )

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """In boxes on a terminal; anywhere else as plain text."""
        if not sys.stdout.isatty():
            super().format_help(ctx, formatter)
            return
        from rich.markup import escape
        from typer import rich_utils

        whole = copy.copy(self)
        whole.params = []
        for each in self.shown(ctx):
            boxed: Any = copy.copy(each)
            boxed.rich_help_panel = _panel(each) or None
            boxed.help = escape(getattr(each, "help", None) or "")
            whole.params.append(boxed)
        whole.add_help_option = False
        whole.epilog = escape(self._last_words(ctx) or "") or None
        rich_utils.rich_format_help(obj=whole, ctx=ctx, markup_mode="rich")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The parts of the help, in plain text."""
        parts: dict[str, list[tuple[str, str]]] = {}
        for each in self.shown(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                title = "Arguments" if each.param_type_name == "argument" else _panel(each) or "Options"
                parts.setdefault(title, []).append(record)
        for title, records in parts.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        words = self._last_words(ctx)
        if words:
            formatter.write_paragraph()
            formatter.write_text(words)


class OtherPrograms(TyperCommand):
    """A command whose words are another program's own, dashes and all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = args if args[:1] in (["--help"], ["-h"]) else ["--", *args]
        return super().parse_args(ctx, words if args else ["--help"])


def command_class(
    keys: Mapping[str, config.Key], objectives: Mapping[str, Sequence[str]], chosen: str | None, shows_all: bool
) -> type[Command]:
    """The class of a command that was asked for."""
    told_of = {"keys": keys, "objectives": objectives, "chosen": chosen, "shows_all": shows_all}
    return type("ChosenCommand", (Command,), told_of)


def names_completed(names: Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    """What a shell offers for one of these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


@functools.cache
def objective_names() -> tuple[str, ...]:
    from embedx.objectives import OBJECTIVES

    return tuple(OBJECTIVES)


def _panel(parameter: Any) -> str:
    if parameter.name == "help":
        return HELP
    return getattr(parameter, "rich_help_panel", None) or ""


def _place(panel: str) -> int:
    return PANELS.index(panel) if panel in PANELS else len(PANELS) + (panel == HELP)
