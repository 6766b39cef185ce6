"""fastText's lines, `__label__a __label__b some words here`, and lines of text without labels."""

import re
from collections.abc import Iterable

from scipy.sparse import csr_matrix

from embedx.labeled.data import FileRows, Labels, TextSchema
from embedx.labeled.files import LabelledFile, LabelledFiles, MemoryBudget
from embedx.labeled.formats.contract import Format
from embedx.labeled.formats.xc import header_in
from embedx.labeled.ids import Numbering, check_utf8
from embedx.labeled.options import ReadOptions
from embedx.labeled.words import KnownTextFeatures, text_features


def recognises(file: LabelledFile, options: ReadOptions) -> bool:
    """Whether the beginning has labels or, where text was trained on, is text without them."""
    prefix = options.text.label_prefix.encode()
    if b" " + prefix in b" " + file.lines.head.replace(b"\n", b" "):
        return True
    schema = options.schema
    has_text = schema is not None and schema.text is not None
    return has_text and header_in(file.lines.first_line) is None


def read(files: LabelledFiles, options: ReadOptions) -> FileRows:
    """A row for each line. Labels stand anywhere between white space."""
    training_text = options.schema.text if options.schema else None
    prefix = options.text.label_prefix
    if training_text is not None:
        prefix = training_text.settings["label_prefix"]
    label = _label_pattern(prefix)
    budget = MemoryBudget(files.name)
    numbering = Numbering(budget)
    features = text_features(options.text, budget, training_text)

    labels = []
    for file in files:
        lines = file.lines
        if options.for_prediction:
            lines.keep_empty_lines()
        for chunk in lines:
            check_utf8(lines, chunk)
            rows = chunk.split(b"\n")[:-1]
            labels.append(numbering.labels_of(map(label.findall, rows)))
            features.add([label.sub(b" ", row) for row in rows])

    matrix, schema = features.finish()
    names = [name.removeprefix(str(prefix).encode()) for name in numbering]
    return FileRows(matrix, Labels.joined(labels), names, text=schema)


def features_of_lines(texts: Iterable[bytes], schema: TextSchema) -> csr_matrix:
    """The features of lines of text, from which labels are left out."""
    label = _label_pattern(schema.settings["label_prefix"])
    features = KnownTextFeatures(schema, MemoryBudget("standard input"))
    return features.rows(label.sub(b" ", text) for text in texts)


def _label_pattern(prefix: object) -> re.Pattern[bytes]:
    """Matches a word with this prefix."""
    return re.compile(rb"(?<!\S)" + re.escape(str(prefix).encode()) + rb"\S*")


FASTTEXT = Format(
    name="fastText",
    looks_like="`__label__good a nice film`; features are the counts of the words in the line",
    features="words",
    passes_for_text=True,
    recognises=recognises,
    read=read,
    has_row_per_line=True,
    is_fallback_for_lines=True,
    advice="write lines __label__NAME and words",
)
