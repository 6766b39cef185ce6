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
    return [[word.lower() if lowercase else word for word in line] for line in lines if line]


def words(line: str, tokenizer: str) -> list[str]:
    if tokenizer != "words":
        return line.replace("\0", " ").split()
    tokens = []
    word = ""
    for c in line + " ":
        category = unicodedata.category(c)
        if category[0] in "LN" or (word and (category[0] == "M" or c in "\u200c\u200d")):
            word += c
        elif category[0] != "M" and (category != "Cf" or c == "\u200b"):
            tokens.append(word)
            word = ""
    return [word for word in tokens if word]


def encoded(sources: list[list[list[str]]]) -> tuple[list[int], list[str], list[int]]:
    """Tokens with -1 between sentences, words by first appearance, counts."""
    all_sentences = [sentence for source in sources for sentence in source]
    counts = Counter(word for sentence in all_sentences for word in sentence)
    ids = {word: i for i, word in enumerate(counts)}
    tokens: list[int] = []
    for sentence in all_sentences:
        tokens += [-1] * bool(tokens) + [ids[word] for word in sentence]
    return tokens, list(ids), list(counts.values())
