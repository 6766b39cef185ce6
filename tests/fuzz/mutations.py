"""What may happen to the bytes of a file, and what somebody may do to them."""

import bz2
import gzip
import lzma
import re

import zstandard

# of what a mutation makes; where memory goes with the square of that, it is seen
MAX_BYTES = 1 << 25
PACKERS = (
    lambda data: gzip.compress(data, 1),
    bz2.compress,
    lambda data: lzma.compress(data, preset=0),
    zstandard.ZstdCompressor(write_checksum=True).compress,
)
# What readers look for, and numbers at which they may go wrong.
TOKENS = [
    *b"\0 \xff \xef\xbb\xbf \xff\xfe \xff\xfe\0\0 \xe2\x80\xa8 \xc2\xa0 \xed\xa0\x80"
    b" \xf0\x9f\x98\x80".split(b" "),
    *b"nan inf -inf 1e39 1e400 1e-400 -0 -1 0 1 +1 0x1 1_0 1. .5 1e 1:1 1,1".split(),
    *b"2147483647 2147483648 4294967296 9223372036854775808 True None null [] {} ()".split(),
    *b"[[ ]] {{ }} {| |} <!-- --> <ref> </ref> ''' == [http://x &#99999999; &amp; <a <text>"
    b" </page>".split(),
    *b": :: , ,, @ # \" ' \\ / % * ? ~ $ | = - -- __label__ __label__x".split(),
    *b"<f4 >f8 |O <U9 |V0 <mediawiki \x93NUMPY PK\3\4".split(),
    *(b" ", b"\t", b"\n", b"\r", b"\r\n", b"\n\n", b"\x0b", b"\x0c", b"\x1c", b"\x85"),
    *(b"1" * 400, b"9" * 5000, b"1 1 1\n", b"0 0 0\n"),
]
WORD = re.compile(rb"[^\s:,()'\"{}\[\]<>]+")


def mutated(rng, data, other):
    """The bytes, changed a few times; `other` is a valid file of some kind, to take parts from."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 5))):
        data = rng.choice(CHANGES)(rng, data, other)[:MAX_BYTES]
    if rng.random() < 0.15:
        data = rng.choice(PACKERS)(data)
        if rng.random() < 0.7:
            data = rng.choice(CHANGES)(rng, data, other)[:MAX_BYTES]
    return data


def span(rng, data):
    """Begin and end of a random piece of the data; short ones are more common."""
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.choice((1, 2, 8, 64, 1024, len(data))))


def flip(rng, data, other):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 10))):
        if data:
            data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(data)


def cut(rng, data, other):
    return data[: rng.randint(0, len(data))]


def drop(rng, data, other):
    start, end = span(rng, data)
    return data[:start] + data[end:]


def insert(rng, data, other):
    place = rng.randint(0, len(data))
    noise = rng.randbytes(rng.choice((1, 4, 100)))
    piece = rng.choice((rng.choice(TOKENS), noise))
    return data[:place] + piece + data[place:]


def move(rng, data, other):
    start, end = span(rng, data)
    place = rng.randint(0, len(data))
    return data[:place] + data[start:end] + data[place:]


def splice(rng, data, other):
    start, end = span(rng, other)
    place = rng.randint(0, len(data))
    return data[:place] + other[start:end] + data[place + rng.choice((0, end - start)) :]


def repeat(rng, data, other):
    """A piece of it, or a token, many times."""
    start, end = span(rng, data)
    piece = rng.choice(
        (data[start:end], rng.choice(TOKENS), rng.choice(TOKENS) + rng.choice(TOKENS))
    )
    n = rng.choice((3, 100, 10_000, 10_000, 1_000_000))
    return data[:start] + piece * min(n, (MAX_BYTES >> 3) // (len(piece) + 1) + 1) + data[start:]


def reword(rng, data, other):
    """A number, name or keyword replaced."""
    words = list(WORD.finditer(data, 0, 1 << 16))
    if not words:
        return data
    match = rng.choice(words)
    number = b"%d" % rng.choice((-1, 0, 1, 2**31, 2**63, rng.randrange(10**9)))
    new = rng.choice((rng.choice(TOKENS), rng.choice(words)[0], number))
    return data[: match.start()] + new + data[match.end() :]


def relined(rng, data, other):
    """Lines left out, doubled, swapped or joined."""
    if len(data) > 1 << 20:
        return data
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    j = rng.randrange(len(lines))
    change = rng.choice(("leave out", "double", "swap", "join"))
    if change == "leave out":
        del lines[i]
    elif change == "double":
        lines.insert(j, lines[i])
    elif change == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    else:
        lines[i : i + 2] = [b" ".join(lines[i : i + 2])]
    return b"\n".join(lines)


def ended(rng, data, other):
    zeros = bytes(rng.choice((1, 100, 100_000)))
    return data + rng.choice((rng.choice(TOKENS), zeros, rng.randbytes(20), data))


CHANGES = (
    flip,
    flip,
    cut,
    drop,
    insert,
    move,
    splice,
    repeat,
    reword,
    reword,
    reword,
    relined,
    ended,
)
