"""Labelled documents as XC files: tf-idf of the most frequent words, brought to length 1."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Document(NamedTuple):
    """A row: the part it belongs to, its labels, and the numbers and counts of its words."""

    part: str
    labels: Sequence[str]
    words: np.ndarray  # int32 (n_words,)
    counts: np.ndarray  # int32 (n_words,)


@dataclass
class Documents:
    """Documents whose words are numbered by their first appearance."""

    vocabulary: dict[str, int] = field(default_factory=dict)
    rows: list[Document] = field(default_factory=list)

    def add(self, part: str, labels: Sequence[str], words: Iterable[str]) -> None:
        """Add a document."""
        counts = Counter(words)
        numbers = [self.vocabulary.setdefault(word, len(self.vocabulary)) for word in counts]
        row = Document(
            part, labels, np.array(numbers, np.int32), np.array([*counts.values()], np.int32)
        )
        self.rows.append(row)

    def names(self) -> list[str]:
        """The words by their numbers."""
        return list(self.vocabulary)

    def n_rows(self, part: str) -> int:
        """How many documents a part has."""
        return sum(row.part == part for row in self.rows)

    def document_frequencies(self) -> np.ndarray:
        """How many training documents have each word, int64 (n_words,)."""
        frequencies = np.zeros(len(self.vocabulary), np.int64)
        for row in self.rows:
            if row.part == "train":
                frequencies[row.words] += 1
        return frequencies


def features_of(
    documents: Documents, n_features: int, max_share: float, by_name: bool
) -> list[str]:
    """The words that are features, in alphabetical order: those that most training documents have,
    but no more than a share of them.

    by_name  whether of words that equally many have the first of the alphabet are kept, not those
             that come first
    """
    frequencies = documents.document_frequencies()
    max_frequency = max_share * documents.n_rows("train")
    words = [
        (-frequency, word)
        for word, frequency in zip(documents.names(), frequencies.tolist(), strict=True)
        if 0 < frequency <= max_frequency
    ]
    key: Callable[[tuple[int, str]], tuple[int, str] | int]
    key = (lambda word: word) if by_name else (lambda word: word[0])
    return sorted(word for _, word in sorted(words, key=key)[:n_features])


def xc_file(
    documents: Documents, part: str, features: Sequence[str], labels: Sequence[str]
) -> Iterator[str]:
    """The lines of a part: the header, then the labels and weights of each document."""
    number_of_label = {label: number for number, label in enumerate(labels)}
    number_of_feature = np.full(len(documents.vocabulary), -1, np.int64)
    known = [documents.vocabulary[word] for word in features]
    number_of_feature[known] = np.arange(len(features))
    frequencies = documents.document_frequencies()
    n_training = documents.n_rows("train")
    idf = np.zeros(len(frequencies))
    idf[known] = np.log(n_training / frequencies[known])

    yield f"{documents.n_rows(part)} {len(features)} {len(labels)}\n"
    for row in documents.rows:
        if row.part == part:
            columns = number_of_feature[row.words]
            kept = columns >= 0
            weights = (1 + np.log(row.counts[kept])) * idf[row.words[kept]]
            length = math.sqrt(float((weights**2).sum())) or 1.0
            pairs = sorted(zip(columns[kept].tolist(), (weights / length).tolist(), strict=True))
            numbers = sorted(number_of_label[label] for label in row.labels)
            cells = " ".join(f"{column}:{weight:.4f}" for column, weight in pairs)
            yield f"{','.join(map(str, numbers))} {cells}\n"
