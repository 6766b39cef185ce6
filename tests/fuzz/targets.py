"""The readers, each with valid files to begin with, and what must hold of whatever they make of a
file.

A target is a function of an empty folder and a generator of random numbers. It writes files there,
of which some are changed, and gives a function that reads them and checks what comes out.
"""

import contextlib
import csv
import io
import json
import random
import struct
import tempfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet
from scipy.sparse import coo_matrix, csc_matrix, csr_matrix, save_npz

from embedx.evaluation.word_sets import read_analogies, read_pairs
from embedx.labeled.ids import read_label_names, read_names
from embedx.labeled.label_files import with_names
from embedx.labeled.read import read, read_training
from embedx.labeled.tables.settings import TableSettings
from embedx.text.encode import encode_sources
from embedx.text.ngrams import NGrams
from embedx.text.recipes import find_recipe
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.vectors import model
from embedx.vectors.export import export
from embedx.vectors.formats import FORMATS
from embedx.vectors.model import load_folder
from embedx.vectors.subwords import Subwords

from .mutations import mutated

N_ROWS = 12
N_FEATURES = 9
N_LABELS = 4


# ---- valid content


def text(rng):
    words = ["the", "cat", "Élan", "naïve", "日本", "R&D", "x" * 40, "1,000", "don't"]
    return "".join(
        " ".join(rng.choices(words, k=rng.randrange(12))) + "\n" for _ in range(20)
    ).encode()


PAGE = """<page><title>Tree {n}</title><ns>0</ns>
<revision><text xml:space="preserve">A '''tree''' [[plant|plants]]
&lt;ref name="a"&gt;
{{{{cite|x={{{{y}}}}}}}}&lt;/ref&gt; &lt;!-- no --&gt;
== Head ==
* item [http://x.org label] &amp;nbsp; [[File:a.jpg|thumb|a [[link]]]]
{{| class=x
| cell
|}}
</text></revision></page>
"""


def dump(rng):
    pages = "".join(PAGE.format(n=n) for n in range(rng.randrange(1, 4)))
    names = '<siteinfo><namespaces><namespace key="6">Datei</namespace></namespaces></siteinfo>'
    return (
        f'<?xml version="1.0"?>\n<mediawiki version="0.10">{names}\n{pages}</mediawiki>\n'.encode()
    )


def feature_words(rng, first):
    return " ".join(
        f"{k + first}:{rng.choice((1, 0.5, -2.25, 1e-3))}"
        for k in sorted(rng.sample(range(N_FEATURES), 3))
    )


def xc(rng):
    labels = [
        ",".join(map(str, rng.sample(range(N_LABELS), rng.randrange(3)))) for _ in range(N_ROWS)
    ]
    rows = [f"{label} {feature_words(rng, 0)}" for label in labels]
    return "\n".join([f"{N_ROWS} {N_FEATURES} {N_LABELS}", *rows, ""]).encode()


def libsvm(rng):
    names = rng.choice((["+1", "-1"], ["cat", "dog", "ü"], ["0", "1", "2"]))
    return "".join(f"{rng.choice(names)} {feature_words(rng, 1)}\n" for _ in range(N_ROWS)).encode()


def fasttext(rng):
    return "".join(
        f"__label__{rng.choice('abc')} good film {rng.choice(('é', 'bad'))}\n"
        for _ in range(N_ROWS)
    ).encode()


def dense(rng):
    out = io.BytesIO()
    values = np.random.default_rng(rng.randrange(9)).random((N_ROWS, N_FEATURES)) * 9
    np.save(
        out,
        np.asarray(
            values.astype(rng.choice(("f4", "f8", ">f4", "u1", "i8", "f2", "?"))),
            order=rng.choice("CF"),
        ),
    )
    return out.getvalue()


def idx(rng):
    dtype, code = rng.choice((("u1", 8), (">f4", 13), (">i2", 11), (">f8", 14)))
    head = bytes([0, 0, code, 3]) + struct.pack(">3I", N_ROWS, 3, 3)
    return head + np.arange(N_ROWS * 9).astype(dtype).tobytes()


def sparse(rng):
    values = np.random.default_rng(rng.randrange(9)).integers(0, 3, (N_ROWS, N_FEATURES))
    matrix = rng.choice((csr_matrix, csr_matrix, csc_matrix, coo_matrix))(
        values.astype(rng.choice(("f4", "f8", "i4", "?")))
    )
    out = io.BytesIO()
    save_npz(out, matrix, compressed=rng.random() < 0.5)
    return out.getvalue()


def label_lines(rng):
    return "".join(rng.choice(("0\n", "1,2\n", "3 1\n", "cat\n")) for _ in range(N_ROWS)).encode()


def label_array(rng):
    out = io.BytesIO()
    np.save(out, np.arange(N_ROWS).astype(rng.choice(("i8", "i4", "u1", "u8"))) % N_LABELS)
    return out.getvalue()


def split(rng):
    return "".join(f"{rng.randint(1, N_ROWS)} {n}\n" for n in range(1, 9)).encode()


def names(rng):
    n_names = rng.choice((N_LABELS, N_LABELS + 3))
    return "".join(
        rng.choice((f"{n}\tx\tname {n}\n", f"name {n}\n")) for n in range(n_names)
    ).encode()


def pairs(rng):
    return b"# a set\nword1\tword2\tscore\n" + b"".join(
        b"tiger\tcat\t%d.5\n" % rng.randrange(10) for _ in range(9)
    )


def analogies(rng):
    return (
        b": capitals\n"
        + b"".join(b"Athens Greece Oslo Norway\n" for _ in range(9))
        + b": plural\ncat cats dog dogs\n"
    )


def vector_text(rng):
    rows = "".join(f"w{n}é {rng.random():.4f} -1.5e-2 {n}\n" for n in range(9))
    return (rng.choice(("9 3\n", "")) + rows).encode()


def vector_binary(rng):
    rows = [
        f"w{n} ".encode() + np.full(3, n, "<f4").tobytes() + rng.choice((b"\n", b""))
        for n in range(9)
    ]
    return b"9 3\n" + b"".join(rows)


def written(format):
    """A small file of vectors in a format."""

    def content(rng):
        dtype = rng.choice(FORMATS[format].dtypes)
        words = [f"w{n}é\n"[: rng.choice((3, 5))] + str(n) for n in range(9)]
        vectors = np.random.default_rng(rng.randrange(9)).normal(size=(9, 3)).astype(np.float32)
        counts = np.arange(9, 0, -1) if rng.random() < 0.5 else None
        with tempfile.TemporaryDirectory() as folder:
            out = export(
                model.WordVectors(words, {"input": vectors}, counts=counts),
                format,
                Path(folder) / "x",
                dtype=dtype,
            )
            return out.read_bytes() if out.is_file() else b""

    return content


def table(rng):
    """Rows with text, numbers, labels and ids as CSV, JSON Lines, JSON or Parquet."""
    rows = [
        {
            "id": n,
            "text": f'w{n} "é", x',
            "price": n / 4 if n % 3 else None,
            "label": f"['a', {n % 2}]",
        }
        for n in range(N_ROWS)
    ]
    if rng.random() < 0.4:
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if rng.random() < 0.3:
        return json.dumps(rows, indent=rng.choice((None, 1))).encode()
    if rng.random() < 0.3:
        out = io.BytesIO()
        parquet.write_table(
            pyarrow.Table.from_pylist(
                [{**row, "when": datetime.min, "label": ["a", "b"]} for row in rows]
            ),
            out,
        )
        return out.getvalue()
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0], delimiter=rng.choice(",;\t|"))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def recipe(rng):
    return b"""kind = "text"
reader = "text"
about = "x"
files = ["a.txt", "given*", "{n}.zip"]
members = "*.txt"
urls = ["http://x/a.txt"]
sha256 = ""
[parts.rest]
files = ["given*"]
[values]
n = "1"
[settings]
lowercase = true
"""


CONTENTS = (
    *(
        text,
        dump,
        xc,
        libsvm,
        fasttext,
        table,
        dense,
        idx,
        sparse,
        label_lines,
        label_array,
        split,
        names,
    ),
    *(
        pairs,
        analogies,
        vector_text,
        vector_binary,
        recipe,
        *map(written, ("npz", "safetensors", "parquet")),
    ),
)


# ---- what must hold


def check_rows(path):
    check_labeled(read(path))


def check_labeled(data):
    features = data.features
    labels = data.labels
    n_rows, n_features = features.shape
    values = features.data if data.is_sparse else features
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    if data.is_sparse:
        assert features.has_canonical_format
        assert features.indptr[0] == 0
        assert features.indptr[-1] == len(features.indices) == len(values)
        assert ((features.indices >= 0) & (features.indices < n_features)).all()
    assert labels.offsets[0] == 0
    assert (np.diff(labels.offsets) >= 0).all()
    assert len(labels) == n_rows
    assert labels.offsets[-1] == len(labels.ids)
    assert (labels.ids >= 0).all()
    assert data.schema.names is None or len(data.schema.names) == data.n_labels == len(
        set(data.schema.names)
    )
    assert data.schema.vocabulary is None or len(data.schema.vocabulary) <= n_features


def check_training(source, labels=None, **how):
    """Reads it as training data, and then the same as test data."""
    data = read_training(source, labels, **how)
    schema = data.schema
    check_labeled(data)
    assert data.labels.ids.max() < data.n_labels
    again = read(source, labels, schema=schema)
    check_labeled(again)
    n_rows, n_features = data.features.shape
    assert again.features.shape[0] == n_rows
    # of text there is a column more, of unknown words
    assert again.features.shape[1] - n_features in (0, 1)
    assert np.array_equal(again.labels.ids, data.labels.ids)


def check_vectors(path):
    vectors = model.load(path)
    assert vectors.vectors.dtype == np.float32
    assert vectors.vectors.ndim == 2
    assert len(vectors.words) == len(vectors.vectors)
    assert vectors.counts is None or len(vectors.counts) == len(vectors.words)


# ---- targets


def file_of(content, reading, name="given.bin"):
    """The target of a reader of one file, from its content and what reads and checks it."""

    def target(folder, rng):
        data = content(rng)
        (folder / name).write_bytes(mutated(rng, data, rng.choice(CONTENTS)(rng)))
        return lambda: reading(str(folder / name))

    return target


def encoded(path):
    rng = random.Random(Path(path).stat().st_size)
    tokenizer = rng.choice(("whitespace", "words"))
    bad = rng.choice(("replace", "replace", "skip", "error"))
    settings = TextSettings(tokenizer=tokenizer, lowercase=True, on_bad_utf8=bad)
    with encode_sources(
        find_sources([path]), settings, cache_dir=Path(path).parent / "cache"
    ) as corpus:
        assert corpus.n_tokens == corpus.counts.sum()
        assert len(corpus.words) == len(set(corpus.words))
        assert corpus.tokens.max() < len(corpus.words)


def of_table(folder, rng):
    settings = rng.choice(
        (
            TableSettings(),
            TableSettings(feature_columns="price", text_column="text"),
            TableSettings("2", "4"),
        )
    )
    return file_of(
        table,
        lambda path: check_training(path, table=settings),
        rng.choice(("given.csv", "given.bin")),
    )(folder, rng)


def of_arrays(folder, rng):
    """Features in one file and labels in another, one of which is changed."""
    features = rng.choice((dense, idx, sparse))
    labels = rng.choice((label_lines, label_array, sparse))
    contents = [features(rng), labels(rng)]
    which = rng.randrange(2)
    contents[which] = mutated(rng, contents[which], rng.choice(CONTENTS)(rng))
    paths = [folder / "features.given", folder / "labels.given"]
    for path, data in zip(paths, contents, strict=True):
        path.write_bytes(data)
    return lambda: check_training(*map(str, paths))


def of_split(folder, rng):
    (folder / "data.txt").write_bytes(xc(rng))
    column = rng.choice(("", ":1", ":2", ":3", ":0", ":99999999999"))
    return file_of(
        split, lambda path: check_labeled(read(f"{folder / 'data.txt'}@{path}{column}"))
    )(folder, rng)


def of_names(folder, rng):
    (folder / "data.txt").write_bytes(rng.choice((xc, libsvm))(rng))

    def reading(path):
        read_names(path)
        check_labeled(
            with_names(read_training(str(folder / "data.txt")), read_label_names(path), path)
        )

    return file_of(names, reading)(folder, rng)


def of_recipe(folder, rng):
    def reading(path):
        with contextlib.chdir(folder):
            recipe = find_recipe(Path(path).stem)  # in the working directory
            if recipe:
                recipe.find_files()

    return file_of(recipe, reading, "given.toml")(folder, rng)


def of_folder(folder, rng):
    """A model folder with one file changed, or gone."""
    n = 6
    values = np.random.default_rng(0).random((2, n, 3)).astype(np.float32)
    model.WordVectors(
        [f"w\t{i}" for i in range(n)],
        {"input": values[0], "output": values[1]},
        settings={"dim": 3},
        counts=np.arange(n, 0, -1) if rng.random() < 0.8 else None,
        facts={"objective": "ns", "final_loss": 0.5},
    ).save(folder / "given")
    file = rng.choice(sorted((folder / "given").iterdir()))
    if rng.random() < 0.05:
        file.unlink()
    else:
        file.write_bytes(mutated(rng, file.read_bytes(), rng.choice(CONTENTS)(rng)))

    def reading():
        load_folder(folder / "given")
        check_vectors(folder / "given")

    return reading


def fasttext_bin(rng):
    """A model with n-grams, some of whose numbers may be others."""
    n_buckets = rng.choice((1, 9))
    dim = rng.choice((1, 3))
    spec = NGrams(2, 3, n_buckets)
    values = np.random.default_rng(0)
    words = ["the", "cat", "日本", "naïve"]
    word_rows, rows, outputs = (
        values.normal(size=(n, dim)).astype(np.float32) for n in (4, n_buckets, 4)
    )
    arrays = {"input": word_rows, "word_part": word_rows, "output": outputs}
    counts = np.array([9, 5, 3, 1])
    model_with_subwords = model.WordVectors(
        words, arrays, counts=counts, subwords=Subwords(spec, rows, np.arange(n_buckets))
    )
    with tempfile.TemporaryDirectory() as folder:
        data = bytearray(export(model_with_subwords, "fasttext", Path(folder) / "x").read_bytes())
    if rng.random() < 0.5:
        at = 4 * rng.randrange(1, 23)
        value = rng.choice((-1, 0, 1, 2, 3, 7, 2**31 - 1, -(2**31)))
        data[at : at + 4] = struct.pack("<i", value)
    return bytes(data)


TARGETS = {
    "text": file_of(text, encoded),
    "dump": file_of(dump, encoded),
    "xc": file_of(xc, check_training),
    "libsvm": file_of(libsvm, check_training),
    "fasttext": file_of(fasttext, check_training),
    "table": of_table,
    "dense": file_of(dense, check_rows),
    "idx": file_of(idx, check_rows, "given-idx3-ubyte"),
    "sparse": file_of(sparse, check_rows),
    "arrays": of_arrays,
    "split": of_split,
    "names": of_names,
    "pairs": file_of(pairs, lambda path: read_pairs(Path(path))),
    "analogies": file_of(analogies, lambda path: read_analogies(Path(path))),
    "recipe": of_recipe,
    "vectors-text": file_of(vector_text, check_vectors),
    "vectors-binary": file_of(vector_binary, check_vectors),
    "vectors-npz": file_of(written("npz"), check_vectors),
    "vectors-safetensors": file_of(written("safetensors"), check_vectors),
    "vectors-parquet": file_of(written("parquet"), check_vectors),
    "fasttext-bin": file_of(fasttext_bin, check_vectors),
    "folder": of_folder,
}
