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
_TEMPLATES.filters["minus"] = lambda text: (
    "–" if text == "-" else re.sub(r"(?<![^\s(])-(?=\d)", "−", text)
)
_TEMPLATES.filters["utc"] = lambda text: re.sub(
    r"(?<=\d)T(\d\d:\d\d):\d\d\+00:00", r" \1 UTC", text
)


def render(template: str, title: str, **values: Any) -> str:
    """The page that a template makes of these values."""
    return _TEMPLATES.get_template(template).render(title=title, **values)
