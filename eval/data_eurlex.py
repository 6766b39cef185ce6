"""EURLEX57K: laws of the European Union as JSON files, with the EUROVOC concepts that they are
about.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from eval.data_repositories import Blob, Repository
from eval.data_xc import Documents

EURLEX57K = Repository(
    "https://github.com/SalvatoreTucci/lmtc-emnlp2020-master",
    "0ee74390f449e7219cb7f275eb40b70e08ea2b81",
    "data/datasets/EURLEX57K",
)
PARTS = ("train", "dev", "test")
DESCRIPTORS = "EURLEX57K.json"
WORD = re.compile(r"[a-z]{2,}")
FIELDS = ("title", "header", "recitals", "main_body", "attachments")


def laws(files: Sequence[Blob]) -> list[Blob]:
    """The files of laws, training rows first, by their CELEX numbers."""
    kept = [file for file in files if _part_of(file) in PARTS]
    return sorted(
        kept, key=lambda file: (PARTS.index(_part_of(file)), PurePosixPath(file.path).stem)
    )


def documents_of(files: Sequence[Blob], texts: Iterable[str]) -> Documents:
    """The laws with their concepts."""
    documents = Documents()
    for file, text in zip(files, texts, strict=True):
        law = json.loads(text)
        words = WORD.findall("\n".join(_text_of(law, name) for name in FIELDS).lower())
        documents.add(_part_of(file), law["concepts"], words)
    return documents


def concepts_of(documents: Documents) -> list[str]:
    """All concepts: numbers by their value, then others."""
    concepts = {concept for row in documents.rows for concept in row.labels}
    return sorted(concepts, key=_order)


def described(concepts: Sequence[str], descriptors: Any) -> list[str]:
    """What each concept is called, after its EUROVOC id."""
    labels = [descriptors.get(concept, {}).get("label", "") for concept in concepts]
    names = [label.replace("\t", " ") for label in labels]
    return [f"{concept}\t{name}" for concept, name in zip(concepts, names, strict=True)]


def _part_of(file: Blob) -> str:
    return PurePosixPath(file.path).parent.name


def _text_of(law: dict[str, Any], field: str) -> str:
    """The text of a field, which may be missing or a list of paragraphs."""
    value = law.get(field) or ""
    return "\n".join(value) if isinstance(value, list) else str(value)


def _order(concept: str) -> tuple[int, int, str]:
    return (0, int(concept), "") if concept.isdigit() else (1, 0, concept)
