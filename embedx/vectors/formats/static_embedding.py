"""A folder that sentence-transformers and model2vec load, and embed sentences with: the mean of the vectors of their words.

    SentenceTransformer("folder").encode(["a sentence"])         StaticModel.from_pretrained("folder").encode(["a sentence"])

    model.safetensors   the tensor `embeddings` (words + 1, dim): the last row, of zeros, is for unknown words
    tokenizer.json      of the library tokenizers: splits text into words as `embedx train` did
    config.json, modules.json   of the two libraries
    README.md           the model card

sentence-transformers counts unknown words into the mean, which changes the length of a sentence's vector and not its direction;
it takes no int8.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from embedx.errors import EmbedxError
from embedx.training.memory import available_memory
from embedx.training.progress import Progress
from embedx.vectors.formats.card import model_card
from embedx.vectors.formats.contract import Format, Found, Table, as_vectors, check_words, shown
from embedx.vectors.formats.safetensors import load_tensors

TENSORS, TOKENIZER, CARD = "model.safetensors", "tokenizer.json", "README.md"
FILES = (TENSORS, TOKENIZER, "config.json", "modules.json", CARD)
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}]
BYTES_PER_BYTE = 12  # of JSON, once it is read
AGAIN = "fetch the folder again"


class StaticEmbedding(Format):
    name = "static-embedding"
    meaning = "a folder that embeds sentences, by the mean of their words, with a model card"
    programs = "sentence-transformers, model2vec"
    dtypes = ("float32", "float16")
    is_folder = True
    keeps_license = True

    @classmethod
    def recognises_folder(cls, folder: Path) -> bool:
        return all((folder / file).is_file() for file in (TENSORS, TOKENIZER))

    @classmethod
    def is_own_folder(cls, folder: Path) -> bool:
        return cls.recognises_folder(folder) and {each.name for each in folder.iterdir()} <= set(FILES)

    @classmethod
    def read_folder(cls, folder: Path, progress: Progress) -> Found:
        words, unknown = _words(folder / TOKENIZER)
        tensors = load_tensors(folder / TENSORS)
        if "mapping" in tensors:
            raise EmbedxError(f"{folder}: words share vectors (model2vec's vocabulary quantisation), which is not read")
        name = next((each for each in ("embeddings", "embedding.weight") if each in tensors), None)
        if name is None:
            raise EmbedxError(f"{folder / TENSORS}: holds no tensor `embeddings`, but {shown(', '.join(tensors))}; {AGAIN}")
        stored = tensors[name].astype(np.float32) if tensors[name].dtype == np.int8 else tensors[name]
        found = as_vectors(str(folder / TENSORS), words, {"vectors": stored}, AGAIN)
        is_unknown = bool(words) and words[-1] == unknown and not found.vectors[-1].any()
        return Found(words[:-1], found.vectors[:-1]) if is_unknown else found

    @classmethod
    def write(cls, place: Path, table: Table) -> None:
        place.mkdir()
        unknown = "[UNK]"
        while unknown in table.words:
            unknown = f"[{unknown}]"
        dim = table.rows.shape[1]
        vectors = np.vstack([table.arrays()["vectors"], np.zeros((1, dim), table.dtype)])  # the last for unknown words
        save_file({"embeddings": vectors}, place / TENSORS, {"format": "pt"})
        config = {
            "model_type": "model2vec", "architectures": ["StaticModel"], "tokenizer_name": "embedx", "normalize": False,
            "hidden_dim": dim, "embedding_dtype": table.dtype, "max_length": None,
        }  # fmt: skip
        tokenizer = _tokenizer([*table.words, unknown], table.settings)
        for file, content in ((TOKENIZER, tokenizer), ("config.json", config), ("modules.json", MODULES)):
            with (place / file).open("w", encoding="utf-8") as out:
                json.dump(content, out, ensure_ascii=False)
        (place / CARD).write_text(model_card(table), "utf-8")


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


def _words(file: Path) -> tuple[list[str], str | None]:
    """The words of a tokenizer in the order of their ids, and the one for unknown words."""
    try:
        if BYTES_PER_BYTE * file.stat().st_size > available_memory():
            raise MemoryError
        content = json.loads(file.read_bytes())
        model = content["model"]
        vocabulary = model["vocab"]
        if isinstance(vocabulary, list):  # Unigram: pieces with scores
            vocabulary = {piece: row for row, (piece, _) in enumerate(vocabulary)}
        numbers = {**vocabulary, **{each["content"]: each["id"] for each in content.get("added_tokens") or ()}}
        words = sorted(numbers, key=numbers.__getitem__)
        if [numbers[word] for word in words] != list(range(len(words))) or not all(isinstance(word, str) for word in words):
            raise ValueError("its numbers have gaps")
        unknown = model.get("unk_token")
    except MemoryError:
        raise EmbedxError(f"{file}: does not fit into memory") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise EmbedxError(f"{file}: no readable tokenizer with a vocabulary ({shown(str(error))}); {AGAIN}") from None
    check_words(str(file), words)
    return words, unknown if isinstance(unknown, str) else None
