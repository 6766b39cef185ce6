"""Bibtex and Delicious as mulan has them: ARFF files of words and tags that a row has, and an XML
file that says which of the attributes are tags.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from embedx.errors import DataError
from eval.data_repositories import Repository

REPOSITORY = "https://github.com/tsoumakas/mulan"
COMMIT = "43f6389095ad71984264db4387a8074b22bc7d4a"
BIBTEX = Repository(REPOSITORY, COMMIT, "data/multi-label/bibtex")
DELICIOUS = Repository(REPOSITORY, COMMIT, "data/multi-label/delicious")
PARTS = ("train", "test")
ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\S+)\s", re.IGNORECASE)


class Attributes(NamedTuple):
    """The attributes of a file by their places: which feature or label each is."""

    features: dict[int, int]
    labels: dict[int, int]
    feature_names: list[str]
    label_names: list[str]


def label_names(xml: str) -> set[str]:
    """The attributes that are labels."""
    return {
        element.attrib["name"]
        for element in ElementTree.fromstring(xml).iter()
        if element.tag.endswith("label")
    }


def attributes_of(arff: str, is_label: set[str]) -> Attributes:
    """What the header of a file says."""
    attributes = Attributes({}, {}, [], [])
    names = [_unquoted(name) for name in ATTRIBUTE.findall(arff.partition("@data")[0])]
    for place, name in enumerate(names):
        numbers = attributes.features
        known = attributes.feature_names
        if name in is_label:
            numbers = attributes.labels
            known = attributes.label_names
        numbers[place] = len(known)
        known.append(name)
    return attributes


def xc_lines(arff: str, attributes: Attributes) -> Iterator[str]:
    """The lines of an XC file with the rows of a sparse file: every feature that a row has is 1."""
    rows = [line.strip() for line in arff.partition("@data")[2].splitlines() if line.strip()]
    n_features = len(attributes.feature_names)
    n_labels = len(attributes.label_names)
    yield f"{len(rows)} {n_features} {n_labels}\n"
    for number, row in enumerate(rows, 1):
        if not (row.startswith("{") and row.endswith("}")):
            raise DataError(f"row {number}", None, "is not sparse", "it should be {PLACE 1,...}")
        places = [int(cell.split()[0]) for cell in row[1:-1].split(",") if cell.strip()]
        labels = [attributes.labels[place] for place in places if place in attributes.labels]
        features = [attributes.features[place] for place in places if place in attributes.features]
        cells = " ".join(f"{feature}:1" for feature in features)
        yield f"{','.join(map(str, labels))} {cells}\n"


def _unquoted(name: str) -> str:
    """A name as the XML file has it, with its backslashes."""
    if name.startswith("'"):
        return name[1:-1]
    return name
