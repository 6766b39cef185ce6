"""Pages from the jinja2 templates beside this file. All text is escaped."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _json(value: Any) -> Markup:
    """JSON within an element; no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # has no <, > or &


_TEMPLATES.filters["json"] = _json


def render(template: str, title: str, **values: Any) -> str:
    """The page that a template makes of these values."""
    return _TEMPLATES.get_template(template).render(title=title, **values)
