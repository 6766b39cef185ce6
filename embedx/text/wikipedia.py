"""A Wikipedia dump (MediaWiki XML) as plain text, one paragraph a line."""

from collections.abc import Iterable, Iterator


def paragraphs(blocks: Iterable[bytes], cut_off: bool) -> Iterator[bytes]:
    yield from blocks
