"""Tokens of a text are kept: read once, never half-written, listed, cleared."""

import errno
import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from embedx.errors import SettingError
from embedx.text import (
    cache,
    corpus_writer,
    decompression,
    encoded_corpus,
    read_ahead,
    sources,
    temporary_folders,
)
from embedx.text.cache import clear_caches, list_caches
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.encode import encode_sources
from embedx.text.sentences import encode_sentences
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from tests.support import forked
from tests.support.cached_corpora import as_reference, leftovers, read
from tests.support.files import files_below
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data


def test_each_source_is_opened_once_and_never_again(small_text, cache_folder, monkeypatch):
    opened = []
    real_open = decompression.open_source

    def noted_open(source):
        opened.append(source.name)
        return real_open(source)

    monkeypatch.setattr(decompression, "open_source", noted_open)
    monkeypatch.setattr(read_ahead, "open_source", noted_open)
    first = read(small_text, cache_folder)
    assert opened == [str(small_text)]
    progress = Notes()
    again = read(small_text, cache_folder, progress)
    assert opened == [str(small_text)]
    assert as_reference(again) == as_reference(first)
    (note,) = progress.notes
    assert note.startswith("10 tokens of 8 words (0.0 MB) ")
    assert str(first.folder) in note


def test_other_settings_or_a_changed_file_are_read_again(small_text, cache_folder):
    settings = [{}, {"lowercase": True}, {"tokenizer": "words"}, {"on_bad_utf8": "skip"}]
    settings += [
        {"column": "1", **more} for more in ({}, {"on_bad_record": "skip"}, {"tokenizer": "none"})
    ]
    keys = {
        cache.cache_key(find_sources([str(small_text)]), TextSettings(**setting))
        for setting in settings
    }
    assert read(small_text, cache_folder).key in keys
    small_text.write_text("Something else")
    changed = read(small_text, cache_folder)
    assert len(keys | {changed.key}) == 8
    assert [*changed.words] == ["Something", "else"]


def test_another_file_of_the_same_size_and_time_is_read_again(small_text, cache_folder):
    small_text.write_text("tea time")
    os.utime(small_text, ns=(1, 1))
    read(small_text, cache_folder)
    small_text.write_text("sea wave")
    os.utime(small_text, ns=(1, 1))
    assert [*read(small_text, cache_folder).words] == ["sea", "wave"]
    other = small_text.with_name("other")
    other.write_text("low tide")
    os.utime(other, ns=(1, 1))
    other.replace(small_text)
    assert [*read(small_text, cache_folder).words] == ["low", "tide"]


def test_a_file_that_changes_while_it_is_read_is_not_kept(small_text, cache_folder, monkeypatch):
    monkeypatch.setattr("embedx.text.encode.current_fingerprint", lambda source: {"size": 0})
    encoded = read(small_text, cache_folder)
    assert encoded.key == ""
    assert list_caches(cache_folder) == []
    encoded.close()
    assert leftovers(cache_folder) == []


def test_standard_input_is_deleted_when_closed(cache_folder, monkeypatch, small_text):
    with open(small_text) as text:
        monkeypatch.setattr(sys, "stdin", text)
        progress = Notes()
        encoded = encode_sources(
            find_sources(["-"]), TextSettings(), progress, cache_dir=cache_folder
        )
    assert encoded.n_tokens == 10
    assert progress.notes == [
        f"10 tokens of 8 words (0.0 MB) written to {encoded.folder} for this run only"
    ]
    assert list_caches(cache_folder) == []
    encoded.close()
    assert leftovers(cache_folder) == []


def test_a_temporary_corpus_that_nobody_closes_is_deleted_all_the_same(cache_folder):
    corpus = encode_sentences([["a"]], cache_dir=cache_folder)
    assert corpus.folder.is_dir()
    del corpus
    gc.collect()
    assert leftovers(cache_folder) == []


def test_a_full_disk_is_an_error_that_names_folder_and_option(
    small_text, cache_folder, monkeypatch
):
    def write_tokens(self, tokens):
        with temporary_folders.errors_explained(cache_folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(CorpusWriter, "write_tokens", write_tokens)
    with refused_data(str(cache_folder), "cache_dir", quoting="No space left on device"):
        read(small_text, cache_folder)
    assert leftovers(cache_folder) == []


def test_a_cache_folder_that_is_a_file_is_an_error(small_text):
    with refused_data(str(small_text), "cache_dir", quoting="Not a directory"):
        read(small_text, small_text)


def test_two_runs_that_encode_the_same_text_share_the_first_result(
    small_text, cache_folder, monkeypatch
):
    both_have_built = threading.Barrier(2, timeout=20)
    finish = CorpusWriter.finish
    published = set()

    def finish_together(*args):
        both_have_built.wait()
        corpus = finish(*args)
        published.add((corpus.folder / "tokens.bin").stat().st_ino)
        return corpus

    monkeypatch.setattr(CorpusWriter, "finish", finish_together)
    corpora = []
    threads = [
        threading.Thread(target=lambda: corpora.append(read(small_text, cache_folder)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert corpora[0].folder == corpora[1].folder
    assert as_reference(corpora[0]) == as_reference(corpora[1])
    assert len(published) == 1
    assert leftovers(cache_folder) == [corpora[0].key]


def test_files_of_a_killed_run_are_deleted_but_not_those_of_a_running_one(small_text, cache_folder):
    code = (
        "import os, sys; from pathlib import Path; import numpy as np; from"
        " embedx.text.corpus_writer import CorpusWriter\nwith"
        " CorpusWriter(Path(sys.argv[1])) as building:\n   "
        " building.write_tokens(np.zeros(1000, np.int32)); os.kill(os.getpid(), 9)"
    )
    options = {"cwd": cache_folder.parent, "env": forked.environment(cache_folder.parent)}
    ended = forked.run(cache_folder, code=code, check=False, **options)
    assert ended.returncode == -signal.SIGKILL
    (killed,) = leftovers(cache_folder)
    with CorpusWriter(cache_folder) as living:
        assert not (cache_folder / killed).exists()
        read(small_text, cache_folder)
        assert living.folder.is_dir()


def test_other_files_in_the_cache_folder_are_not_touched(small_text, cache_folder):
    others = [
        # as long a name as ours
        "lock",
        "diary.txt",
        "building-plans/house.pdf",
        "building-pictures/about.json",
        "building-abcdefgh/tokens.bin",
        "website/about.json",
        f"{'0' * 24}/about.json",
        f"{'0' * 24}/index.html",
        f"{'f' * 24}",
    ]
    for name in others:
        (cache_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (cache_folder / name).write_text("the user's own")
    (cache_folder / "building-12345678").mkdir()
    (cache_folder / ("a" * 24)).symlink_to(cache_folder / "website")
    before = files_below(cache_folder)
    encoded = read(small_text, cache_folder)
    assert [cache["key"] for cache in list_caches(cache_folder)] == [encoded.key]
    assert clear_caches(cache_folder) > 0
    assert files_below(cache_folder) == before
    assert (cache_folder / "building-12345678").is_dir()
    assert (cache_folder / ("a" * 24)).is_symlink()


def test_a_corpus_is_not_cached_over_a_folder_with_other_files(small_text, cache_folder):
    key = cache.cache_key(find_sources([str(small_text)]), TextSettings())
    (cache_folder / key).mkdir(parents=True)
    (cache_folder / key / "about.json").write_text("{}")
    (cache_folder / key / "thesis.txt").write_text("years of work")
    before = files_below(cache_folder)
    progress = Notes()
    encoded = read(small_text, cache_folder, progress)
    assert (encoded.n_tokens, encoded.key) == (10, "")
    assert lines_with(progress.notes, f"{cache_folder / key}: ", "--cache-dir")
    encoded.close()
    assert files_below(cache_folder) == before


def test_a_corpus_cannot_be_cleared_before_it_is_opened_for_the_first_time(
    small_text, cache_folder, monkeypatch
):
    clearing = threading.Thread(target=lambda: clear_caches(cache_folder))

    def have_it_cleared_and_open(folder):
        clearing.start()
        clearing.join(0.5)
        return encoded_corpus.EncodedCorpus(folder)

    monkeypatch.setattr(corpus_writer, "EncodedCorpus", have_it_cleared_and_open)
    encoded = read(small_text, cache_folder)
    clearing.join()
    assert encoded.words[:2] == ["The", "cat"]
    assert encoded.tokens[0] == 0
    assert list_caches(cache_folder) == []


def test_a_folder_that_cannot_be_looked_into_is_an_error(cache_folder, monkeypatch):
    def refuse(self):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with refused_data(str(cache_folder), "cache_dir", quoting="Permission denied"):
        list_caches(cache_folder)
    with refused_data(str(cache_folder), "cache_dir", quoting="Permission denied"):
        clear_caches(cache_folder)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_caches_are_listed_and_cleared(small_text, cache_folder, is_damaged):
    cache_folder.mkdir()
    assert list_caches(cache_folder) == []
    encoded = read(small_text, cache_folder)
    (cache,) = list_caches(cache_folder)
    assert (cache["key"], cache["sources"], cache["tokens"]) == (encoded.key, [str(small_text)], 10)
    if is_damaged:
        (encoded.folder / "about.json").write_text("[]")
        (cache,) = list_caches(cache_folder)
    assert clear_caches(cache_folder) == cache["bytes"] > 0
    assert clear_caches(cache_folder) == 0
    assert leftovers(cache_folder) == []
    assert encoded.tokens[0] == 0  # what is mapped stays readable


@pytest.mark.parametrize("command", [list_caches, clear_caches])
def test_a_folder_that_is_not_there_is_neither_listed_nor_cleared(command, tmp_path):
    with pytest.raises(SettingError) as error:
        command(tmp_path / "typo")
    assert (error.value.setting, error.value.value) == ("cache_dir", str(tmp_path / "typo"))


def test_urls_are_kept_under_their_name():
    (source,) = find_sources(["https://example.org/corpus.gz"])
    assert cache.cache_key([source], TextSettings())
    assert sources.total_size([source]) is None
