"""eval search-proposal: a trial run has a row for each contender."""

from eval import papers, search_proposal as script
from tests.support.eval_setup import Records, Run, environment, experiment_called, rows_of


def test_a_trial_run_has_rows_by_time_and_by_rows_scored(tmp_path, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    papers.load.cache_clear()
    script.data_of.cache_clear()
    few = {"seconds": 0.02, "seeds": 1, "rows": 200}
    chosen = ["bibtex", "ove", "ove-search"]
    run = Run(experiment_called("search-proposal"), chosen, quick=True, **few)
    run.folder = tmp_path
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    tables = run.experiment.tables
    assert {*rows_of(tables["bibtex-time"](run.records))} == {"ove", "ove-search"}
    assert {*rows_of(tables["bibtex-rows"](run.records))} == {"ove-search"}
    assert "bibtex" in rows_of(tables["sizes"](run.records))
