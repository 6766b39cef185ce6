"""eval: the costs of a cluster are measured, and the tables of them are made from the records."""

import pytest

from eval import __main__ as command, cluster
from tests.support.eval_setup import RESULTS, Records, experiment_called, made_up, rows_of

# Words a second of one thread without a cluster.
ALONE = 1e6
RANGE_WORDS = 20_000
N_ROWS = 1000
# Every range changes every row, and nothing takes time but training.
COSTLESS = {
    "merged": 0.0,
    "added": 0.0,
    "gathered": 0.0,
    "latency": 0.0,
    "moved": 0.0,
    "row_bytes": 100.0,
    "rows": N_ROWS,
    "uses": [1.0] * N_ROWS,
}


def records_with(path, cost):
    """Records of costs, and of runs on a machine of two cores."""
    ranges = {"chunks_of_range": RANGE_WORDS // 10_000}
    runs = [
        ({"kind": "costs"}, cost),
        ({"kind": "run", "workers": 0, "threads": 1}, {"words_per_second": ALONE}),
    ]
    for workers, threads in ((1, 2), (2, 1), (4, 1)):
        job = {"kind": "run", "workers": workers, "threads": threads}
        runs.append((job, {"words_per_second": 1e6, "cluster": ranges}))
    return made_up(path, runs)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (None, (2, 2, 2)),
        ("merged", (1, 1, 1)),
        ("added", (1, 1, 1)),
        ("gathered", (2, 1, 1)),
    ],
)
def test_workers_on_one_machine_are_simulated_to_share_its_cores(cost, expected, tmp_path):
    """On two cores they train twice as many words a second as one thread; half of that if a cost
    takes as long as training. Nothing is gathered for a worker alone.
    """
    as_long_as_training = {cost: RANGE_WORDS / ALONE / N_ROWS} if cost else {}
    records = records_with(tmp_path / "records.jsonl", COSTLESS | as_long_as_training)
    rows = rows_of(experiment_called("cluster").tables["checked"](records))
    assert list(rows) == ["1 worker × 2 threads", "2 workers × 1 thread", "4 workers × 1 thread"]
    ratios = [float(row["simulated / measured"]) for row in rows.values()]
    assert ratios == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_costs_are_measured_and_simulated_with(two_topics, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    options = ["--set", f"corpus={two_topics}", "--results", str(tmp_path)]
    command.main(["cluster", "--quick", "--only", "costs", *options])
    records = Records(tmp_path / "cluster.jsonl")
    cost = records.last(kind="costs")
    published = experiment_called("cluster").records_in(RESULTS).last(kind="costs")
    assert cost.keys() == published.keys()
    assert 0 < cost["rows_changed"] <= cost["rows"]
    assert min(cost["merged"], cost["added"], cost["gathered"], cost["latency"]) > 0
    made = cluster.EXPERIMENT.tables["costs"](records)
    assert "a worker merges a row, µs" in rows_of(made)
    assert made in (tmp_path / "cluster.md").read_text()
    checked = cluster.EXPERIMENT.tables["checked"](records_with(tmp_path / "runs.jsonl", cost))
    assert "2 workers × 1 thread" in rows_of(checked)
