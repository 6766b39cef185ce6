"""Encoded corpora of the cache that were damaged or edited are reported, and encoded again."""

import os
import re

import numpy as np
import pytest

from embedx.text import encoded_corpus
from embedx.text.cache import list_caches
from tests.support.cached_corpora import as_reference, leftovers, read
from tests.support.notes import Notes


def flip(file):
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)


CHANGED = "about.json: the checksum of the other files differs"


NOT_OURS = "about.json: not what was written there"


DAMAGE = [  # with whether `list_caches`, which reads about.json alone, sees it
    *((lambda f, name=name: flip(f / name), CHANGED, False) for name in encoded_corpus.DATA),
    (lambda f: (f / "tokens.bin").write_bytes(bytes(48)), CHANGED, False),
    (lambda f: os.truncate(f / "letters.bin", 0), CHANGED, False),
    (lambda f: (f / "starts.npy").unlink(), "starts.npy", False),
    (lambda f: os.truncate(f / "about.json", 6), "", True),
    (lambda f: (f / "about.json").write_text("[]"), NOT_OURS, True),
    (
        lambda f: (f / "about.json").write_text((f / "about.json").read_text().replace("10", "11")),
        NOT_OURS,
        True,
    ),
]


@pytest.mark.parametrize(("damage", "complaint", "is_listed"), DAMAGE)
def test_a_damaged_corpus_is_reported_and_encoded_again(
    small_text, cache_folder, damage, complaint, is_listed
):
    first = read(small_text, cache_folder)
    expected = as_reference(first)
    damage(first.folder)
    (listed,) = list_caches(cache_folder)
    assert (listed["damage"] is not None) == is_listed
    if listed["damage"]:
        assert complaint in listed["damage"]
        assert (listed["key"], listed["bytes"]) == (
            first.key,
            sum(file.stat().st_size for file in first.folder.iterdir()),
        )
    progress = Notes()
    again = read(small_text, cache_folder, progress)
    assert as_reference(again) == expected
    assert re.match(rf"{first.folder}: damaged \(.*{complaint}.*\), ", progress.notes[0])
    assert leftovers(cache_folder) == [first.key]
    progress = Notes()
    assert as_reference(read(small_text, cache_folder, progress)) == expected
    assert "token cache" in progress.notes[0]


def a_token_that_is_no_word(folder, about):
    tokens = np.fromfile(folder / "tokens.bin", np.int32)
    tokens[3] = 1 << 30
    tokens.tofile(folder / "tokens.bin")


def other_counts(folder, about):
    np.save(folder / "counts.npy", np.load(folder / "counts.npy")[::-1] + 1)


def counts_of_another_type(folder, about):
    np.save(folder / "counts.npy", np.load(folder / "counts.npy").astype(np.float64))


def a_word_that_goes_back(folder, about):
    starts = np.load(folder / "starts.npy")
    starts[2] = -(1 << 62)
    np.save(folder / "starts.npy", starts)


def letters_that_are_no_text(folder, about):
    letters = (folder / "letters.bin").read_bytes()
    (folder / "letters.bin").write_bytes(b"\xff" + letters[1:])


def no_sources(folder, about):
    about["report"]["sources"] = [None]


def a_source_of_another_type(folder, about):
    about["report"]["sources"][0]["bad_utf8"] = "many"


EDITS = [
    (a_token_that_is_no_word, "tokens.bin"),
    (other_counts, "counts.npy"),
    (counts_of_another_type, "counts.npy"),
    (a_word_that_goes_back, "starts.npy"),
    (letters_that_are_no_text, ""),
    (no_sources, ""),
    (a_source_of_another_type, "about.json"),
]


@pytest.mark.parametrize(("edit", "complaint"), EDITS)
def test_a_corpus_that_was_edited_with_care_is_built_again(
    small_text, cache_folder, edit, complaint
):
    """All checksums are those of the edited files."""
    first = read(small_text, cache_folder)
    expected = as_reference(first)
    about = encoded_corpus.read_about(first.folder)
    edit(first.folder, about)
    del about["checksum"]
    encoded_corpus.write_about(first.folder, about)
    progress = Notes()
    assert as_reference(read(small_text, cache_folder, progress)) == expected
    assert f"{first.folder}: damaged ({complaint}" in progress.notes[0]
