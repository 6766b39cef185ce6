"""The pages and notebooks of the documentation, and the blocks of code on a page.

A page's blocks run in their order in a folder with small data. A comment just above a block changes
that:

    <!-- not run: REASON -->                  its embedx commands are parsed alone, and Python
                                              compiled
    <!-- run with: OPTIONS -->                each train, classify and compare gets these options
                                              besides
    <!-- run in: a process of its own -->     not in that of the blocks before
    <!-- interrupted: by Ctrl-C -->           while it trains
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))}
README = ROOT / "README.md"
FENCE = re.compile(
    r"((?:^<!-- [^\n]+ -->\n)*)^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
TRAINING = ("train", "classify", "compare")
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}


def cells(notebook: str) -> list[str]:
    """The code of a notebook; cells that begin with ! have commands alone."""
    notebook_cells = json.loads(NOTEBOOKS[notebook].read_text("utf-8"))["cells"]
    return [
        "".join(cell["source"]).replace("\\\n", "")
        for cell in notebook_cells
        if cell["cell_type"] == "code"
    ]


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    text: str
    marks: dict[str, str]  # what the comments above it say

    @property
    def runs(self) -> bool:
        return "not run" not in self.marks

    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands, each with the output that is shown under it."""
        if self.language not in ("bash", "console"):
            return []
        lines = self.text.replace("\\\n", "").splitlines()
        if self.language == "bash":
            return [(line.split(" #")[0].strip(), []) for line in lines]
        listed: list[tuple[str, list[str]]] = []
        for line in lines:
            if line.startswith("$ "):
                listed.append((line[2:], []))
            else:
                listed[-1][1].append(line)
        return listed


def blocks(page: str) -> list[Block]:
    text = (README if page == "README" else PAGES[page]).read_text("utf-8")
    mark = re.compile(r"<!-- ([a-z ]+): (.+) -->")
    code_blocks = [
        Block(language, code, dict(mark.findall(above)))
        for above, language, code in FENCE.findall(text)
    ]
    assert len(code_blocks) * 2 == len(re.findall("^ *```", text, re.MULTILINE)), (
        "a block without a language"
    )
    return code_blocks
