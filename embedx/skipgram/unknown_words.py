"""How the words of a text agree with those of the model that training continues from: text in
another case, or split otherwise, would teach the model words that it has under another form.
"""

from collections.abc import Container
from typing import NamedTuple

from embedx.errors import Setting, Text
from embedx.runtime.progress import Progress
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.segmentation import ATTACHED

# Shares of the tokens of a text: news had 2 to 5 % that 40 MB of Wikipedia lack, and 13 % that are
# known in lower case alone (explored, not on record).
MAX_OF_OTHER_FORM = 0.05
MAX_UNKNOWN = 0.3
MARKS = ".,;:!?\"'()\u3001\u3002\uff0c\uff01\uff1f"


class UnknownShares(NamedTuple):
    """Shares of the tokens of a text.

    unknown         that are no words of the model
    in_lower_case   and would be in lower case
    without_marks   and would be without the punctuation at their end, whatever their case
    """

    unknown: float
    in_lower_case: float
    without_marks: float


def unknown_shares(corpus: EncodedCorpus, known: Container[str]) -> UnknownShares:
    """How many tokens of a text are no words of a model, and how many are in another form."""
    n_unknown = 0
    n_in_lower_case = 0
    n_without_marks = 0
    for word, count in zip(corpus.words, corpus.counts.tolist(), strict=True):
        if word in known:
            continue
        n_unknown += count
        if word.lower() in known:
            n_in_lower_case += count
        elif ATTACHED.search(word) and word.lower().strip(MARKS) in known:
            n_without_marks += count
    n_tokens = max(int(corpus.counts.sum()), 1)
    return UnknownShares(
        n_unknown / n_tokens, n_in_lower_case / n_tokens, n_without_marks / n_tokens
    )


def report_unknown_words(
    corpus: EncodedCorpus, known: Container[str], start: str, progress: Progress
) -> None:
    """Say how many tokens of a text are no words of the model; a warning, with what to do about it,
    where they are many, or in another form.
    """
    shares = unknown_shares(corpus, known)
    if not shares.unknown:
        return
    problem = f"{shares.unknown:.1%} of the tokens of this text are no words of {start}"
    remedies: list[Text] = []
    if shares.in_lower_case > MAX_OF_OTHER_FORM:
        problem += f", {shares.in_lower_case:.1%} would be in lower case"
        remedies.append(Setting("lowercase", True))
    if shares.without_marks > MAX_OF_OTHER_FORM:
        problem += f", {shares.without_marks:.1%} would be without punctuation at their end"
        remedies.append(Setting("tokenizer", "words"))
    if remedies:
        spaced = [part for remedy in remedies for part in (" ", remedy)]
        progress.warn(problem, "; train with", *spaced)
    elif shares.unknown > MAX_UNKNOWN:
        progress.warn(problem, "; is it text of the same language, split in the same way?")
    else:
        progress.note(problem)
