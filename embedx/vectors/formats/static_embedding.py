"""A folder that sentence-transformers and model2vec load, and embed sentences with: the mean of the vectors of their words.

    SentenceTransformer("folder").encode(["a sentence"])         StaticModel.from_pretrained("folder").encode(["a sentence"])

    model.safetensors   the tensor `embeddings` (words + 1, dim): the last row, of zeros, is for unknown words
    tokenizer.json      of the library tokenizers: splits text into words as `embedx train` did
    config.json, modules.json   of the two libraries
    README.md           the model card, https://huggingface.co/docs/hub/model-cards

sentence-transformers counts unknown words into the mean, which changes the length of a sentence's vector and not its direction;
it takes no int8.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from embedx.storage.folder import installed_version, plain
from embedx.vectors.formats.contract import Format, Table

TENSORS, TOKENIZER, CARD = "model.safetensors", "tokenizer.json", "README.md"
FILES = (TENSORS, TOKENIZER, "config.json", "modules.json", CARD)
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]
IN_CARD = ("objective", "sources", "source", "corpus_tokens", "words_trained", "epochs", "final_loss", "heldout")  # facts
MODEL_CARD = """---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [embeddings, static-embeddings, sentence-transformers, model2vec, word2vec, embedx]
---

# Word vectors

{0[0]:,} words, {0[1]} dimensions, {dtype}; written by embedx {version}.
A sentence's vector is the mean of those of its words. The tokenizer does not join the words of a phrase.

Data, scores and settings:

```json
{listed}
```
"""


def owns(folder: Path) -> bool:
    """Whether all in the folder was written by `write`."""
    return (folder / TOKENIZER).is_file() and {each.name for each in folder.iterdir()} <= set(FILES)


def write(path: Path, table: Table) -> None:
    path.mkdir()
    unknown = "[UNK]"
    while unknown in table.words:
        unknown = f"[{unknown}]"
    dim = table.rows.shape[1]
    vectors = np.vstack([table.arrays()["vectors"], np.zeros((1, dim), table.dtype)])  # the last for unknown words
    save_file({"embeddings": vectors}, path / TENSORS, {"format": "pt"})
    config = {
        "model_type": "model2vec", "architectures": ["StaticModel"], "tokenizer_name": "embedx", "normalize": False,
        "hidden_dim": dim, "embedding_dtype": table.dtype, "max_length": None,
    }  # fmt: skip
    tokenizer = _tokenizer([*table.words, unknown], table.model.settings)
    for file, content in ((TOKENIZER, tokenizer), ("config.json", config), ("modules.json", MODULES)):
        with (path / file).open("w", encoding="utf-8") as out:
            json.dump(content, out, ensure_ascii=False)
    (path / CARD).write_text(_card(table), "utf-8")


def _tokenizer(words: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """The content of tokenizer.json: words as `embedx train` finds them, the last of which stands for unknown ones."""
    letters = {"type": "Split", "pattern": {"Regex": r"[\p{L}\p{M}\p{N}]+"}, "behavior": "Removed", "invert": True}
    vocabulary = {word: row for row, word in enumerate(words)}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Lowercase"} if settings.get("lowercase") else None,
        "pre_tokenizer": letters if settings.get("tokenizer") == "words" else {"type": "WhitespaceSplit"},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": words[-1]},
    }  # fmt: skip


def _card(table: Table) -> str:
    """The model card as Markdown: data, scores and settings of the vectors."""
    about = {name: table.model.facts[name] for name in IN_CARD if name in table.model.facts} | table.model.settings
    listed = json.dumps(about, indent=2, default=plain, ensure_ascii=False)
    return MODEL_CARD.format(table.rows.shape, dtype=table.dtype, version=installed_version(), listed=listed)


STATIC_EMBEDDING = Format(
    name="static-embedding",
    meaning="a folder that embeds sentences, by the mean of their words, with a model card",
    programs="sentence-transformers, model2vec",
    dtypes=("float32", "float16"),
    write=write,
    owns=owns,
)
