"""eval related: relatedness by associations, pairs of words, and the table."""

import numpy as np
import pytest

from eval import related as script
from tests.support.eval_setup import made_up, rows_of

STRENGTHS = {("sun", "moon"): 0.5, ("moon", "night"): 0.5, ("salt", "pepper"): 0.9}


def test_files_of_appendix_a_are_read(tmp_path):
    lines = [
        "<HTML>",
        "CUE, TARGET, NORMED?, #G, #P, FSG",
        "SUN, MOON, YES, 150, 75, .500",
        "SALT, PEPPER, YES, 100, 90, .900",
    ]
    (tmp_path / "Cue_Target_Pairs.S").write_text("\n".join(lines))
    assert script.strengths_in(tmp_path) == {("sun", "moon"): 0.5, ("salt", "pepper"): 0.9}


def test_words_are_related_by_what_they_share_and_not_across_topics():
    known = script.associations(STRENGTHS, {"moon", "night", "pepper", "salt", "sun", "unknown"})
    assert known.words == ["moon", "night", "pepper", "salt", "sun"]
    row = {name: place for place, name in enumerate(known.words)}
    relatedness = known.relatedness
    np.testing.assert_allclose(relatedness, relatedness.T, atol=1e-6)
    np.testing.assert_allclose(np.diag(relatedness), 1, atol=1e-6)
    assert relatedness[row["sun"], row["night"]] > 0.1
    assert relatedness[row["sun"], row["salt"]] == pytest.approx(0, abs=1e-6)


def test_half_of_the_pairs_are_neighbours_and_all_are_words_of_the_group():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 4))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    known = script.Associations([f"w{k}" for k in range(60)], points @ points.T)
    rank = {name: 150 + place for place, name in enumerate(known.words[:50])}
    pairs = script.pairs_of(known, rank, "frequent", 200)
    assert len({pair[:2] for pair in pairs}) == 200
    assert {name for a, b, _ in pairs for name in (a, b)} <= rank.keys()
    golds = np.array([gold for *_, gold in pairs])
    assert golds.mean() > 0.1
    assert (golds < 0).mean() > 0.2


def test_the_table_has_a_row_for_each_kind_of_vectors(tmp_path):
    scores = {"all": 0.4, "SimLex-999": 0.2, "WordSim-353": 0.5, "MTurk-287": 0.5, "RG-65": 0.5}
    runs = [
        ({"tool": "embedx", "megabytes": "10", "rate": None, "seed": seed}, result)
        for seed, result in (
            (1, {"as trained": scores, "centred": scores | {"all": 0.5}}),
            (2, {"as trained": scores, "centred": scores | {"all": 0.6}}),
        )
    ]
    runs.append(
        ({"tool": "gensim", "megabytes": "10", "rate": "0.1", "seed": 1}, {"gensim": scores})
    )
    records = made_up(tmp_path / "records", runs, mixed=True)
    lines = script.results(records)
    assert "| 10 MB | gensim, rate 0.1 | 1 | 0.400 | 0.200 | 0.500 |" in lines
    assert (
        "| 10 MB | embedx, centred | 2 | 0.550 ± 0.050 | 0.200 ± 0.000 | 0.500 ± 0.000 |" in lines
    )
    assert [*rows_of(lines)] == ["10 MB"]
