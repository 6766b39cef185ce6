"""The model card: what the vectors were trained on and how, what they scored, and under which licence they are.

Its head is that of Hugging Face's hub, https://huggingface.co/docs/hub/model-cards.
"""

import json
from collections.abc import Mapping
from typing import Any

from embedx.storage.folder import installed_version, plain
from embedx.vectors.formats.contract import Table

OF_DATA = ("sources", "source", "corpus_tokens", "words_trained", "epochs")
OF_SCORES = ("final_loss",)
SCORES = {
    "log_likelihood": "mean log-likelihood of held-out text, nats",
    "calibrated": "the same at its best temperature",
    "unigram": "that of word frequencies",
}


def model_card(table: Table) -> str:
    """The card as Markdown."""
    n, dim = table.rows.shape
    facts, settings = table.facts, table.settings
    by = f" by the objective `{facts['objective']}`" if "objective" in facts else ""
    scores = {name: facts[name] for name in OF_SCORES if name in facts}
    heldout = facts.get("heldout")
    scores |= {SCORES.get(str(k), str(k)): v for k, v in heldout.items()} if isinstance(heldout, Mapping) else {}
    lines = [
        "---",
        f"license: {json.dumps(table.license, ensure_ascii=False)}",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [embeddings, static-embeddings, sentence-transformers, model2vec, word2vec, embedx]",
        "---",
        "",
        "# Word vectors",
        "",
        f"{n:,} words, {dim} dimensions, {table.dtype}, trained{by}; written by embedx {installed_version()}.",
        "A sentence's vector is the mean of those of its words.",
        "",
        f"Licence: {table.license}",
        "",
        *_section("Data", {name: facts[name] for name in OF_DATA if name in facts}),
        *_section("Scores", scores),
        *_section("Settings", settings),
    ]
    if settings.get("phrases") or settings.get("tokenizer") == "none":
        lines += ["Words of several parts are in the vocabulary; the tokenizer here does not join them.", ""]
    return "\n".join(lines)


def _section(title: str, values: Mapping[str, Any]) -> list[str]:
    """A table of names and values; it says so where none are known."""
    rows = [f"| {_cell(name)} | {_cell(value)} |" for name, value in values.items() if value is not None]
    return [f"## {title}", "", *(["| | |", "|---|---|", *rows] if rows else ["Not known."]), ""]


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=plain, ensure_ascii=False)
    return " ".join(text.replace("|", "\\|").split())
