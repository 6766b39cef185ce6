"""The text feed as one would write it without caring for speed or memory: the truth that the
compiled one is compared to.
"""

import unicodedata
from collections import Counter


def sentences(
    data: bytes,
    tokenizer: str = "whitespace",
    lowercase: bool = False,
    on_bad_utf8: str = "replace",
    **of_records: object,
) -> list[list[str]]:
    """The sentences of one source of plain text that are not empty."""
    errors = {"replace": "replace", "skip": "ignore", "error": "strict"}[on_bad_utf8]
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors)
    lines = [words(line, tokenizer) for line in text.split("\n")]
    return [[lower(word) if lowercase else word for word in line] for line in lines if line]


def words(line: str, tokenizer: str) -> list[str]:
    if tokenizer != "words":
        return line.replace("\0", " ").split()
    spaced = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in line)
    return [word for word in spaced.split(" ") if word]


def lower(word: str) -> str:
    """Character by character, because str.lower() looks at the context of a capital sigma."""
    return "".join(c.lower() for c in word)


def encoded(sources: list[list[list[str]]]) -> tuple[list[int], list[str], list[int]]:
    """Tokens with -1 between sentences, words by first appearance, counts."""
    all_sentences = [sentence for source in sources for sentence in source]
    counts = Counter(word for sentence in all_sentences for word in sentence)
    ids = {word: i for i, word in enumerate(counts)}
    tokens: list[int] = []
    for sentence in all_sentences:
        tokens += [-1] * bool(tokens) + [ids[word] for word in sentence]
    return tokens, list(ids), list(counts.values())
