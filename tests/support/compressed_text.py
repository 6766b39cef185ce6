"""Compressed texts."""

import bz2
import functools
import gzip
import lzma

import zstandard

from embedx.text.opening import open_source
from embedx.text.sources import find_sources
from embedx.text.streams import PLAIN, text_blocks

PACKERS = {
    "gz": functools.partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def read(path, settings=PLAIN):
    (source,) = find_sources([str(path)])
    with open_source(source) as file:
        return b"".join(text_blocks(source, file, settings))
