"""A folder that sentence-transformers and model2vec load, and embed sentences with: the mean of the
vectors of their words.

    SentenceTransformer("folder").encode(["a sentence"])
    StaticModel.from_pretrained("folder").encode(["a sentence"])

    model.safetensors   the tensor `embeddings` (words + 1, dim): the last row, of zeros, is for
                        unknown words
    tokenizer.json      of the library tokenizers: splits text into words as `embedx train` did
    config.json, modules.json   of the two libraries

sentence-transformers counts unknown words into the mean, which changes the length of a sentence's
vector and not its direction; it takes no int8.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.text.unicode_forms import FORMS
from embedx.vectors.formats.contract import Format, Table
from embedx.vectors.formats.safetensors import save_tensors

TENSORS = "model.safetensors"
TOKENIZER = "tokenizer.json"
CONFIG = "config.json"
MODULES = "modules.json"
FILES = {TENSORS, TOKENIZER, CONFIG, MODULES}
MODULES_OF_SENTENCE_TRANSFORMERS = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
]


def owns(folder: Path) -> bool:
    """Whether all in the folder was written by `write`."""
    return (folder / TOKENIZER).is_file() and {path.name for path in folder.iterdir()} <= FILES


def write(path: Path, table: Table) -> None:
    """Write the folder."""
    path.mkdir()
    unknown = "[UNK]"
    while unknown in table.words:
        unknown = f"[{unknown}]"
    dim = table.rows.shape[1]
    vector_of_unknown = np.zeros((1, dim), table.dtype)
    vectors = np.vstack([table.arrays()["vectors"], vector_of_unknown])
    save_tensors(path / TENSORS, {"embeddings": vectors}, {"format": "pt"})
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "tokenizer_name": "embedx",
        "normalize": False,
        "hidden_dim": dim,
        "embedding_dtype": table.dtype,
        "max_length": None,
    }
    tokenizer = _tokenizer([*table.words, unknown], table.model.settings)
    _write_json(path / TOKENIZER, tokenizer)
    _write_json(path / CONFIG, config)
    _write_json(path / MODULES, MODULES_OF_SENTENCE_TRANSFORMERS)


def _write_json(path: Path, content: object) -> None:
    """Write a value as JSON."""
    with path.open("w", encoding="utf-8") as out:
        json.dump(content, out, ensure_ascii=False)


def _normalizer(settings: dict[str, Any]) -> dict[str, Any] | None:
    """What is done to text before it is split, as training did."""
    steps: list[dict[str, str]] = []
    if settings.get("normalize"):
        steps.append({"type": FORMS[settings["normalize"]]})
    if settings.get("lowercase"):
        steps.append({"type": "Lowercase"})
    if len(steps) > 1:
        return {"type": "Sequence", "normalizers": steps}
    return steps[0] if steps else None


def _tokenizer(words: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """The content of tokenizer.json: words as `embedx train` finds them, the last of which stands
    for unknown ones.
    """
    letters = {
        "type": "Split",
        "pattern": {"Regex": r"[\p{L}\p{M}\p{N}]+"},
        "behavior": "Removed",
        "invert": True,
    }
    splits_by_letters = settings.get("tokenizer") == "words"
    vocabulary = {word: row for row, word in enumerate(words)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": _normalizer(settings),
        "pre_tokenizer": letters if splits_by_letters else {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": words[-1]},
    }


STATIC_EMBEDDING = Format(
    name="static-embedding",
    meaning="a sentence embedding model: the mean of the word vectors",
    programs="sentence-transformers, model2vec",
    dtypes=("float32", "float16"),
    write=write,
    owns=owns,
)
