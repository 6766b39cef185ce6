"""The help of commands and of lists: sections, wrapped to the terminal."""

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from embedx.cli.aliases import COMMANDS_INSTEAD
from embedx.errors import EmbedxError

# Options that --help shows, by command; --help-all shows all.
SHORT_HELP = {
    "train": (
        "objective",
        "output",
        "architecture",
        "dim",
        "window",
        "negatives",
        "epochs",
        "time_budget",
        "threads",
        "min_count",
        "subwords",
        "heldout",
        "config",
    ),
    "classify": (
        "test",
        "text_column",
        "label_column",
        "objective",
        "output",
        "hidden",
        "weights",
        "negatives",
        "epochs",
        "time_budget",
        "threads",
        "learning_rate",
        "l2",
        "validation",
        "config",
    ),
    "compare": (
        "objectives",
        "train_labels",
        "test",
        "pairs",
        "next_item",
        "output",
        "resume",
        "time_budget",
        "epochs",
        "seeds",
        "tune",
        "heldout",
        "dim",
        "hidden",
        "config",
    ),
}

# The section of the help with the commands of other programs, of which it has the names alone.
OF_PEERS = "Commands of word2vec.c and fastText"


def help_formatter() -> Any:
    """What writes text and lists as the help does: wrapped to the terminal."""
    return typer.Context(TyperCommand("help")).make_formatter()


def write_sections(
    formatter: Any, rows: Iterable[tuple[Any, tuple[str, str]]], default_title: str
) -> None:
    """Write the sections of a help.

    rows  commands or options, each with its name and its text
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    for item, row in rows:
        title = getattr(item, "rich_help_panel", None) or default_title
        sections.setdefault(title, []).append(row)
    for title, section_rows in sections.items():
        with formatter.section(title):
            formatter.write_dl(section_rows)


class Group(TyperGroup):
    """Commands, whose help has them by sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = []
        peers_commands = []
        for name, command in self.commands.items():
            if getattr(command, "rich_help_panel", None) == OF_PEERS:
                peers_commands.append(name)
            else:
                rows.append((command, (name, first_sentence(command.help))))
        write_sections(formatter, rows, "Commands")
        if peers_commands:
            with formatter.section(OF_PEERS):
                formatter.write_text(", ".join(peers_commands))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS_INSTEAD:
            raise EmbedxError(f"no command {cmd_name}: {COMMANDS_INSTEAD[cmd_name]}")
        return super().get_command(ctx, "export" if cmd_name == "convert" else cmd_name)


def first_clause(text: str) -> str:
    """The first clause of the text about an option, and all that is said of its default."""
    meaning, bracket, default = text.partition("  [")
    first, *others = meaning.split("; ")
    defaults = [clause for clause in others if clause.startswith("by default ")]
    return "; ".join([first, *defaults]) + bracket + default


def first_sentence(text: str | None) -> str:
    """The first paragraph of a help, on one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def show_all(ctx: Any, wanted: bool) -> None:
    """Print the help with all options."""
    if wanted:
        for parameter in ctx.command.params:
            parameter.hidden = False
        print(ctx.get_help())
        raise typer.Exit
