"""The model card: data, settings, scores and licence of the vectors.

Its head is that of Hugging Face's hub, https://huggingface.co/docs/hub/model-cards.
"""

import json
from collections.abc import Mapping
from typing import Any

from embedx.storage.folder import installed_version, plain
from embedx.vectors.formats.contract import Table

DATA = ("sources", "source", "corpus_tokens", "words_trained", "epochs")
SCORES = {
    "log_likelihood": "mean log-likelihood of held-out text, nats",
    "calibrated": "the same at its best temperature",
    "unigram": "that of word frequencies",
}
CARD = """---
license: {quoted_license}
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [embeddings, static-embeddings, sentence-transformers, model2vec, word2vec, embedx]
---

# Word vectors

{n:,} words, {dim} dimensions, {dtype}, trained{by}; written by embedx {version}.
A sentence's vector is the mean of those of its words.

Licence: {license}
{sections}"""


def model_card(table: Table) -> str:
    """The card as Markdown."""
    facts, settings = table.facts, table.settings
    heldout = facts.get("heldout")
    scores = {"final_loss": facts.get("final_loss")}
    scores |= {SCORES.get(str(k), str(k)): v for k, v in heldout.items()} if isinstance(heldout, Mapping) else {}
    sections = {"Data": {name: facts.get(name) for name in DATA}, "Scores": scores, "Settings": settings}
    text = "".join(_section(title, values) for title, values in sections.items())
    if settings.get("phrases") or settings.get("tokenizer") == "none":
        text += "\nWords of several parts are in the vocabulary; the tokenizer here does not join them.\n"
    return CARD.format(
        quoted_license=json.dumps(table.license, ensure_ascii=False), license=table.license, dtype=table.dtype,
        n=len(table.rows), dim=table.rows.shape[1], version=installed_version(), sections=text,
        by=f" by the objective `{facts['objective']}`" if "objective" in facts else "",
    )  # fmt: skip


def _section(title: str, values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in values.items() if value is not None]
    return "\n".join(["", f"## {title}", "", *(["| | |", "|---|---|", *rows] if rows else ["Not known."]), ""])


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=plain, ensure_ascii=False)
    return " ".join(text.replace("|", "\\|").split())
