"""Training that continues from the vectors of a file."""

import numpy as np
import pytest

import embedx
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import WordVectorsRun
from tests.support import word_training
from tests.support.continued_training import FEW, MORE, rows, train_more
from tests.support.notes import Notes


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.npz"])
def test_the_vectors_of_a_file_are_kept_and_output_vectors_begin_at_zero(
    start_folder, tmp_path, name
):
    file = tmp_path / name
    embedx.load(start_folder()).export(file)
    vectors = embedx.load(file)
    config = configure("ns", {**FEW, "start": str(file)})
    run = WordVectorsRun.resolved(read_corpora(MORE, config, Notes(), None), config, Notes())
    run.allocate()
    run.initialise()
    start = run.word_vectors(None)
    np.testing.assert_array_equal(rows(start, vectors.words, "input"), vectors.vectors)
    assert not start.arrays["output"].any()
    times = sum(sentence.count("kitty") for sentence in MORE)
    assert start.counts[start.index("kitty")] == times
    assert start.counts[start.index("cat")] == 1  # not in this text
    assert set(start.words) == {*vectors.words, "kitty", "lorry"}


@pytest.mark.parametrize("objective", ["ns", "softmax", "hs"])
def test_frozen_vectors_of_a_file_do_not_move_while_outputs_are_trained(
    start_folder, tmp_path, objective
):
    embedx.load(start_folder()).export(tmp_path / "vectors.txt")
    vectors = embedx.load(tmp_path / "vectors.txt")
    new = train_more(tmp_path / "vectors.txt", objective=objective, freeze=True).model
    np.testing.assert_array_equal(rows(new, vectors.words, "input"), vectors.vectors)
    assert new.arrays["output"].any()
    assert new.facts["objective"] == objective


def test_a_note_counts_the_words_of_start_vectors_and_says_that_outputs_are_zero(
    start_folder, tmp_path
):
    embedx.load(start_folder()).export(tmp_path / "vectors.txt")
    notes = Notes()
    config = configure(None, {**FEW, "start": str(tmp_path / "vectors.txt"), "phrases": 1})
    assert config.objective.name == "ns"
    word_training.train(MORE, config, progress=notes)
    assert any("16 words kept" in note and "zero" in note for note in notes.notes)
