"""bzip2 unpacked by several threads: the blocks of a file, each as a file of its own, as `bzip2recover` takes them apart.

A stream is "BZh" and a digit, blocks that begin with BLOCK at any bit and then have 32 bits of checksum, and END with the
checksum of all of them; streams follow each other at whole bytes. By chance the same 48 bits stand within a block once in some
ten terabytes: what then fails here is right when it is read by one thread.

The library rapidgzip (0.16) is as fast, but cannot read a stream without seeking, such as a URL, or a pipe of which a part was
read before; it fails at zeros after the last stream, and does not check the checksum of a stream.
"""

import bz2
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.text.in_order import in_order

HEAD = re.compile(rb"BZh[1-9]")
BLOCK, END = 0x314159265359, 0x177245385090  # the digits of pi, and of its square root
MARK_BITS, CHECKSUM_BITS = 48, 32
MARK_MASK, MASK_32 = (1 << MARK_BITS) - 1, (1 << 32) - 1
READ_BYTES = 1 << 20
MAX_BLOCK_BYTES = 1 << 21  # as stored; a block is of 900,000 bytes that bzip2 makes hardly larger


def near_marks() -> np.ndarray:
    """bool (65536,): whether two bytes may be those before the last byte of a mark, wherever that ends within it."""
    near = np.zeros(1 << 16, dtype=np.bool_)
    near[[(mark >> (8 - shift)) & 0xFFFF for mark in (BLOCK, END) for shift in range(8)]] = True
    return near


NEAR_MARKS = near_marks()  # of all pairs of bytes one in four thousand


@kernel
def next_mark(data, bit):  # type: ignore[no-untyped-def]
    """The first bit, from `bit` on, at which BLOCK or END stands in data; -1 if there is none."""
    bits = np.int64(0)
    first = bit >> 3
    for i in range(first, len(data)):
        bits = ((bits << 8) | np.int64(data[i])) & ((1 << 56) - 1)
        if i >= first + 5 and NEAR_MARKS[(bits >> 8) & 0xFFFF]:
            for shift in range(7, -1, -1):
                mark = (bits >> shift) & MARK_MASK
                if mark in (BLOCK, END):
                    place = 8 * (i + 1) - shift - MARK_BITS
                    if place >= bit:
                        return place
    return -1


def unpacked(file: Any, threads: int) -> Iterator[bytes]:
    """The content of a file, block by block. Raises OSError or EOFError where it is damaged."""
    with ThreadPoolExecutor(threads, "embedx-bzip2") as pool:
        yield from in_order((pool.submit(_decompress, block) for block in blocks(file)), 2 * threads)


def _decompress(block: bytes) -> bytes:
    try:
        return bz2.decompress(block)
    except ValueError as error:  # which is what it says of a block that has no end
        raise OSError("Invalid data stream") from error


def blocks(file: Any) -> Iterator[bytes]:
    """Each block as a file of its own."""
    data = file.read(READ_BYTES)
    while data:
        while len(data) < 4 and (more := file.read(READ_BYTES)):
            data += more
        if not HEAD.match(data):
            raise OSError("Invalid data stream")
        bit, checksum = 32, 0  # where a mark has to be; of all blocks so far
        while True:
            while 8 * len(data) < bit + MARK_BITS + CHECKSUM_BITS:
                data += _more(file)
            if number(data, bit, MARK_BITS) == END:
                break
            if number(data, bit, MARK_BITS) != BLOCK:
                raise OSError("Invalid data stream")
            own = number(data, bit + MARK_BITS, CHECKSUM_BITS)
            checksum = (((checksum << 1) | (checksum >> 31)) & MASK_32) ^ own
            searched = bit + MARK_BITS
            while (end := next_mark(np.frombuffer(data, np.uint8), searched)) < 0:
                searched = max(searched, 8 * len(data) - MARK_BITS - 7)
                if len(data) - bit // 8 > MAX_BLOCK_BYTES:
                    raise OSError("Invalid data stream")
                data += _more(file)
            yield as_file(data, bit, end, own)
            data, bit = data[end // 8 :], end % 8
        if number(data, bit + MARK_BITS, CHECKSUM_BITS) != checksum:
            raise OSError("Invalid data stream")
        data = data[-(-(bit + MARK_BITS + CHECKSUM_BITS) // 8) :].lstrip(b"\0")
        while not data and (data := file.read(READ_BYTES)):
            data = data.lstrip(b"\0")


def _more(file: Any) -> bytes:
    more: bytes = file.read(READ_BYTES)
    if not more:
        raise EOFError
    return more


def number(data: bytes, bit: int, width: int) -> int:
    """The number of `width` bits that stands at `bit`."""
    last = bit + width
    return int.from_bytes(data[bit // 8 : -(-last // 8)]) >> (-last % 8) & ((1 << width) - 1)


def as_file(data: bytes, bit: int, end: int, checksum: int) -> bytes:
    """The block at data[bit:end], in bits, with a head and an end."""
    raw: np.ndarray = np.frombuffer(data[bit // 8 : -(-end // 8)], np.uint8)
    shift, n_bits = bit % 8, end - bit
    if shift:
        raw = (raw << shift) | np.append(raw[1:] >> (8 - shift), np.uint8(0))
    whole, rest = n_bits // 8, n_bits % 8
    left = int(raw[whole]) >> (8 - rest) if rest else 0  # bits of the last byte, if it is not whole
    tail = ((left << MARK_BITS | END) << CHECKSUM_BITS | checksum) << (-rest % 8)
    return b"BZh9" + raw[:whole].tobytes() + tail.to_bytes((rest + MARK_BITS + CHECKSUM_BITS + 7) // 8)
