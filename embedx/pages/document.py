"""Pages from the jinja2 templates beside this file. All text is escaped."""

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _with_minus_signs(text: str) -> str:
    """The text with the typographic minus sign before numbers; a dash for a hyphen alone."""
    if text == "-":
        return "–"
    return re.sub(r"(?<![^\s(])-(?=\d)", "−", text)


def _with_readable_times(text: str) -> str:
    """The text with times in ISO 8601 as `2024-01-31 13:45 UTC`."""
    return re.sub(r"(?<=\d)T(\d\d:\d\d):\d\d\+00:00", r" \1 UTC", text)


_TEMPLATES.filters["minus"] = _with_minus_signs
_TEMPLATES.filters["utc"] = _with_readable_times


def render(template: str, title: str, **values: Any) -> str:
    """The page that a template makes of these values."""
    return _TEMPLATES.get_template(template).render(title=title, **values)
