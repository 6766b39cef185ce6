"""Generated parts of the pages: tables of the registries, docstrings, examples, and the pages of
eval/results.

Tables stand in docs/objectives.md, docs/labels.md and docs/graphs.md between marks, and a test
compares them; `python -m docs.hooks` writes them. Others are filled in when the site is built,
where a page has `<!-- generated: NAME -->` with a NAME in PARTS, `<!-- docstring: MODULE -->`, or
`<!-- example: FILE -->`.
"""

import ast
import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "eval" / "results"
LABELS_PAGE = ROOT / "docs" / "labels.md"
OBJECTIVES_PAGE = ROOT / "docs" / "objectives.md"
GRAPHS_PAGE = ROOT / "docs" / "graphs.md"
SPACE = "\N{NO-BREAK SPACE}"
DOCSTRING = re.compile(r"<!-- docstring: (?P<module>[\w.]+) -->")
EXAMPLE = re.compile(r"<!-- example: (?P<file>[\w.]+) -->")
OPTION = re.compile(r"(?<![\w-])--(?:set )?(?P<name>[a-z][a-z0-9-]*)")
MARK = re.compile(r"<!-- generated: (?P<name>[\w-]+) -->")
# a table outside code: head, marks of alignment, rows
TABLE = re.compile(
    r"^(?P<head>\|.*\|\n)(?P<marks>\|(?:\s*:?-+:?\s*\|)+)\n(?P<body>(?:\|.*\|(?:\n|\Z))+)",
    re.MULTILINE,
)
UNESCAPED_BAR = re.compile(r"(?<!\\)\|")
WITHOUT_NUMBER = ("", "-", "–", "—", "n/a")
# perhaps bold, with a sign, a unit, an error or the ends of an interval
_DIGITS = (
    r"[-+−~<>≤≥±×]?\s?\d[\d,.]*(?:e[-+]?\d+)?(?:\s?(?:%|[kKMG]?i?B?|[mµn]?s|min|h|points|times|×))?"
)
NUMBER = re.compile(
    rf"\**{_DIGITS}(?:\s(?:±|to)\s{_DIGITS})?(?:\s?\({_DIGITS}(?:\sto\s{_DIGITS})?\))?\**"
)
# what pymdownx.arithmatex makes of $...$ and, as a block, of $$...$$
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
BARE_LOG = re.compile("<mi>log</mi>(?!<mo)")
# how a page in docs/ links to a page of measurements
IN_REPOSITORY = re.compile(r"\]\((\.\./)+eval/results/")
IN_DOCS = "](../../docs/"  # and the other way


# ---- parts


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, whose cells may hold bars."""
    head = list(head)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measured_objectives() -> str:
    """The objectives with measured scores, the highest held-out likelihood first."""
    from embedx import objectives

    scores = objectives.measured()["objectives"]
    good = {name: each for name, each in scores.items() if not each.get("diverged")}
    rows = [
        (
            f"`{name}`",
            f"{each['log_likelihood']:.3f}",
            _number(each.get("pooled"), "{:.3f}"),
            f"{each['wordsim']:.3f}",
            _number(each.get("analogies"), "{:.1%}").replace("%", f"{SPACE}%"),
            f"{round(each['words_per_second'], -3):,}",
        )
        for name, each in sorted(good.items(), key=lambda item: -item[1]["log_likelihood"])
    ]
    head = (
        "objective",
        "log-likelihood",
        "similarity, five sets",
        "WordSim-353",
        "Google analogies",
        "words/s",
    )
    about = objectives.measured()["about"]
    how = (
        f"Skip-gram at the defaults that each objective had on {about['date']}, which may have"
        f" changed since, on {about['corpus']} ({about['words']:,} words), {about['epochs']}"
        f" epochs, {about['threads']} threads of {about['machine']}. The log-likelihood is the"
        f" mean in nats over pairs of the {about['heldout']} held out; the unigram model has"
        f" {about['unigram']:.3f}."
    )
    return f"{markdown(head, rows)}\n\n{how}"


def _number(value: float | None, how: str) -> str:
    return "-" if value is None else how.format(value)


def described_objectives() -> str:
    """What each objective is and when to choose it."""
    from embedx import objectives

    rows = [dict(zip(objectives.TABLE_HEAD, row, strict=True)) for row in objectives.table()]
    lines = [
        (f"`{row['objective']}`", row["rows"].replace(" ", SPACE), row["when"], row["paper"])
        for row in rows
    ]
    return markdown(("objective", "rows", "when", "paper"), lines)


def formulas_of_objectives() -> str:
    """The loss of each objective, what it needs and which samplers it takes."""
    from embedx import objectives

    rows = [dict(zip(objectives.TABLE_HEAD, row, strict=True)) for row in objectives.table()]
    shown = ("samplers", "needs")
    return markdown(
        ("objective", "loss", *shown),
        [
            (f"`{row['objective']}`", f"`{row['loss']}`", *(row[name] for name in shown))
            for row in rows
        ],
    )


def samplers() -> str:
    """The samplers and what they do."""
    from embedx.samplers import SAMPLERS

    return markdown(
        ("sampler", "what it does"),
        [(f"`{name}`", each.meaning) for name, each in SAMPLERS.items()],
    )


def parameters_of_words() -> str:
    """The parameters of `SkipGram`."""
    from embedx.skipgram.estimator import FIELDS, PARAMETER_DEFAULTS

    return _parameters(FIELDS, PARAMETER_DEFAULTS)


def parameters_of_labels() -> str:
    """The parameters of `SoftmaxClassifier` that are settings of `embedx classify`."""
    from embedx.classification.estimator_settings import FIELDS, PARAMETERS

    fields = {name: field for name, field in FIELDS.items() if name in PARAMETERS}
    return _parameters(fields, {name: field.default for name, field in fields.items()})


def _parameters(fields: dict[str, Any], defaults: dict[str, Any]) -> str:
    """A row for each parameter: type and range, default, and meaning; of those that are objectives'
    own, whose they are.
    """
    from embedx.objectives import OBJECTIVES
    from embedx.settings import described, settings_of
    from embedx.spelling import as_typed

    rows = []
    for name, field in fields.items():
        takers = [
            each
            for each, objective in OBJECTIVES.items()
            if name in settings_of(objective.Settings)
        ]
        meaning = f"{', '.join(takers)}: " * bool(takers) + with_parameters(
            field.metadata["meaning"]
        )
        default = as_typed(defaults[name]) or "-"
        if takers:
            default = "of the objective"
        elif defaults[name] is None and field.default is not None:
            default = f"{as_typed(field.default)}, varies"
        rows.append(
            (f"`{name}`", described(field).replace("|", ", "), default, meaning.replace("|", "\\|"))
        )
    return markdown(("parameter", "type and range", "default", "meaning"), rows)


def with_parameters(meaning: str) -> str:
    """The meaning of a setting with parameters in place of options: weights for --weights."""
    return OPTION.sub(lambda option: option["name"].replace("-", "_"), meaning)


def parts() -> dict[str, str]:
    """The tables of docs/objectives.md, by name."""
    return {
        "measured-objectives": measured_objectives(),
        "described-objectives": described_objectives(),
        "formulas-of-objectives": formulas_of_objectives(),
        "samplers": samplers(),
    }


def commands() -> str:
    """Each command with its arguments and options; for docs/commands.md, when the site is built."""
    import inspect

    from typer.main import get_command

    from embedx.cli.app import application

    def described(words: list[str], command: Any) -> str:
        if getattr(command, "commands", None):
            return "\n\n".join(
                described([*words, name], each) for name, each in command.commands.items()
            )
        rows = [
            (
                " ".join(f"`{name}`" for name in [*each.opts, *each.secondary_opts]),
                " ".join((each.help or "").split()),
            )
            for each in command.params
            if each.param_type_name == "option"
        ]
        context = command.make_context(" ".join(["embedx", *words]), [], resilient_parsing=True)
        about = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
        escaped = [[cell.replace("<", "&lt;") for cell in row] for row in rows]
        usage = f"```text\n{command.get_usage(context)}\n```"
        return "\n\n".join(
            [f"### {' '.join(words)}", about, usage, markdown(("option", "meaning"), escaped)]
        )

    names = get_command(application([])).commands
    return "\n\n".join(
        described([name], get_command(application([name])).commands[name]) for name in names
    )


def labelled_formats() -> str:
    """The formats of labelled data, what their files hold, and the suffixes of tables."""
    from embedx.labeled.formats import FORMATS
    from embedx.text.sources import READER_OF_SUFFIX

    table = markdown(
        ("format", "looks like"),
        [(format.name, format.looks_like) for format in FORMATS.values()],
    )
    suffixes = [f"`{suffix}`" for suffix, reader in READER_OF_SUFFIX.items() if reader != "text"]
    return f"{table}\n\nSuffixes of tables: {', '.join(suffixes)}, also before `.gz` and the like."


def labels_parts() -> dict[str, str]:
    """The tables of docs/labels.md, by name."""
    return {"formats": labelled_formats()}


def defaults_by_kind() -> str:
    """The settings whose defaults depend on the kind of data, with those of each kind."""
    from embedx.skipgram.configuration import configure
    from embedx.skipgram.defaults import DEFAULTS_BY_KIND, TEXT, WALKS
    from embedx.spelling import as_typed, option_name
    from embedx.text.settings import SESSIONS

    values = {}
    options_by_kind = {TEXT: {}, SESSIONS: {"format": SESSIONS}, WALKS: {"walks": 10}}
    for kind, options in options_by_kind.items():
        config = configure(None, options)
        values[kind] = {"objective": config.objective.name, **config.record()}
    names = dict.fromkeys(name for defaults in DEFAULTS_BY_KIND.values() for name in defaults)
    rows = [
        (f"`{option_name(name)}`", *(as_typed(values[kind].get(name, "-")) for kind in values))
        for name in names
    ]
    return markdown(("option", *values), rows)


def graphs_parts() -> dict[str, str]:
    """The tables of docs/graphs.md, by name."""
    return {"defaults-by-kind": defaults_by_kind()}


PARTS = {
    "parameters-of-words": parameters_of_words,
    "parameters-of-labels": parameters_of_labels,
    "commands": commands,
}


def _docstring(module: str) -> str:
    file = ROOT / (module.replace(".", "/") + ".py")
    return ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""


def _example(file: str) -> str:
    text = (ROOT / "docs" / "examples" / file).read_text("utf-8")
    return f'```python title="docs/examples/{file}"\n{text}```'


def filled(text: str) -> str:
    """A page with its parts. Raises KeyError for the name of none, OSError for that of no file."""
    text = EXAMPLE.sub(lambda found: _example(found["file"]), text)
    text = MARK.sub(lambda found: PARTS[found["name"]](), text)
    return DOCSTRING.sub(lambda found: f"```text\n{_docstring(found['module'])}\n```", text)


# ---- what mkdocs calls


def on_config(config: Any) -> Any:
    """Name the pages of eval/results in the navigation."""
    pages = [
        (re.search(r"^# (.+)", path.read_text("utf-8"), re.MULTILINE), path)
        for path in sorted(RESULTS.glob("*.md"))
    ]
    config["nav"].append(
        {"Measurements": [{found[1]: f"results/{path.name}"} for found, path in pages if found]}
    )
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of eval/results, with their pictures and records, as `results/`."""
    from mkdocs.structure.files import File

    for path in sorted(RESULTS.iterdir()):
        if path.suffix in (".md", ".png", ".jsonl"):
            files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def with_numbers_right(text: str) -> str:
    """A page whose columns of numbers are aligned right, where a table does not say otherwise."""
    return TABLE.sub(_aligned_table, text)


def _aligned_table(table: re.Match[str]) -> str:
    """A table of Markdown with `---:` for its columns of numbers."""
    rows = [_cells(row) for row in table["body"].splitlines()]
    marks = []
    for column, mark in enumerate(_cells(table["marks"])):
        cells = [row[column] for row in rows if column < len(row)]
        is_plain = ":" not in mark
        marks.append("---:" if is_plain and _are_numbers(cells) else mark)
    return f"{table['head']}| {' | '.join(marks)} |\n{table['body']}"


def _cells(row: str) -> list[str]:
    """The cells of a row of a table."""
    return [cell.strip() for cell in UNESCAPED_BAR.split(row.strip().strip("|"))]


def _are_numbers(cells: Iterable[str]) -> bool:
    """Whether all cells are numbers or without one, and some are numbers."""
    filled_cells = [cell for cell in cells if cell not in WITHOUT_NUMBER]
    return bool(filled_cells) and all(map(NUMBER.fullmatch, filled_cells))


def on_page_markdown(text: str, **of_page: Any) -> str:
    """Fill in the parts; links to pages of measurements lead to the copies in the site, and theirs
    to its pages.
    """
    text = with_numbers_right(filled(text))
    return IN_REPOSITORY.sub("](results/", text).replace(IN_DOCS, "](../")


def with_formulas(content: str) -> str:
    """A page of HTML with its formulas as MathML, which browsers draw without a script."""
    return FORMULA.sub(_mathml, content)


def _mathml(formula: re.Match[str]) -> str:
    """A formula in LaTeX as MathML; one of a block is centred, and scrolls where it is wide.

    Raises ValueError for a command of LaTeX that the converter does not know.
    """
    from latex2mathml.converter import convert

    latex = html.unescape(formula["latex"]).strip()
    is_inline = formula["tag"] == "span"
    mathml = convert(latex, display="inline" if is_inline else "block")
    if "\\" in mathml:
        raise ValueError(f"unknown command of LaTeX in {latex}")
    # a thin space after a function without brackets, as LaTeX has it
    mathml = BARE_LOG.sub('<mi>log</mi><mspace width="0.17em" />', mathml)
    return mathml if is_inline else f'<div class="formula">{mathml}</div>'


def on_page_content(content: str, **of_page: Any) -> str:
    """Typeset the formulas of a page."""
    return with_formulas(content)


def write_tables() -> None:
    """Write the tables of the pages that have some anew."""
    from eval.page import filled as with_tables

    tables_of_page = {
        OBJECTIVES_PAGE: parts(),
        LABELS_PAGE: labels_parts(),
        GRAPHS_PAGE: graphs_parts(),
    }
    for page, tables in tables_of_page.items():
        text = page.read_text("utf-8")
        page.write_text(with_tables(text, tables, page), "utf-8")


if __name__ == "__main__":
    write_tables()
