"""eval: a run keeps what it measures, records name their machine, and no module needs itself."""

import ast
import bz2
import gzip
import json
import re
from pathlib import Path

import pytest

from eval import __main__ as command, corpus, datasets, graphs, scale, word_tests
from eval.experiment import Experiment, in_process
from eval.page import MARKED, table
from eval.records import environment_of
from tests.support.eval_setup import (
    EXPERIMENTS,
    RESULTS,
    ROOT,
    Records,
    Run,
    environment,
    experiment_called,
    made_up,
    with_word_pairs,
)


def counting(tmp_path, **more):
    """An experiment of two jobs, and what it measured."""
    measured = []

    def jobs(run):
        yield from ({"which": which} for which in run.chosen("which"))

    def measure(run, job):
        measured.append(job["which"])
        return {"value": len(measured)}

    def values(records):
        return table(
            [
                {"which": record["job"]["which"], "value": record["result"]["value"]}
                for record in records.find()
            ]
        )

    experiment = Experiment(
        "counting", "Counting", {"which": ("a", "b")}, jobs, measure, {"values": values}, {}, **more
    )
    return experiment, measured


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the experiment by the command line; what it measured."""

    def go(*words, **more):
        experiment, measured = counting(tmp_path, **more)
        monkeypatch.setattr(command, "experiment_called", lambda name: experiment)
        command.main(["speed", "--results", str(tmp_path), *words])
        return measured

    return go


def test_a_run_measures_everything_and_resuming_only_what_is_missing(run, tmp_path):
    assert run("--only", "b") == ["b"]
    assert run("--resume") == ["a"]
    assert run("--resume") == []
    assert run() == ["a", "b"]
    lines = (tmp_path / "counting.jsonl").read_text().splitlines()
    assert sum('"job"' in line for line in lines) == 4  # nothing is ever taken away
    assert "| b | 2 |" in (tmp_path / "counting.md").read_text()


@pytest.mark.parametrize("page", [*RESULTS.glob("*.md"), ROOT / "docs" / "bounds.md"], ids=str)
def test_a_page_begins_with_what_was_found_and_ends_with_how_it_was_measured(page):
    begins, *sections = page.read_text("utf-8").split("\n## ")
    _, *paragraphs = begins.split("\n\n")
    assert any(paragraph.lstrip().startswith("**In short.**") for paragraph in paragraphs[:3])
    assert sections[-1].startswith("Records\n")
    (name,) = (match[2] for match in MARKED.finditer(sections[-1]))
    assert name == "circumstances"


def test_a_report_touches_nothing_but_the_tables(run, tmp_path):
    run()
    page = tmp_path / "counting.md"
    marks = "<!-- table of {0} -->\nold\n<!-- end of the table -->"
    page.write_text(
        f"before\n{marks.format('values')}\nbetween\n{marks.format('circumstances')}\nafter\n"
    )
    assert run("--report-only") == []
    text = page.read_text()
    assert re.sub(MARKED, "T", text) == "before\nT\nbetween\nT\nafter\n"
    assert "old" not in text
    assert "| b | 2 |" in text
    page.write_text("no place for tables\n")
    with pytest.raises(SystemExit, match="circumstances, values"):
        run("--report-only")
    assert page.read_text() == "no place for tables\n"


def test_a_trial_run_never_writes_to_the_published_results(monkeypatch, tmp_path, capsys):
    experiment, _ = counting(tmp_path)
    monkeypatch.setattr(command, "experiment_called", lambda name: experiment)
    monkeypatch.setattr(command, "QUICK_RESULTS", tmp_path / "quick")
    before = {file: file.read_bytes() for file in RESULTS.iterdir()}
    command.main(["speed", "--quick"])
    assert "A trial run" in (tmp_path / "quick" / "counting.md").read_text()
    with pytest.raises(SystemExit):
        command.main(["speed", "--quick", "--results", str(RESULTS)])
    assert "--quick does not write to the published results" in capsys.readouterr().err
    assert before == {file: file.read_bytes() for file in RESULTS.iterdir()}


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--only", "c"], "no c in speed, which has which: 'a' 'b'"),
        (["--set", "size=1"], "speed has no size"),
        (["--publish"], "speed publishes nothing"),
    ],
)
def test_unknown_experiments_and_parts_are_refused(run, capsys, words, printed):
    with pytest.raises(SystemExit):
        run(*words)
    assert printed in capsys.readouterr().err


def test_a_report_without_records_is_refused(run):
    with pytest.raises(SystemExit, match=r"\.jsonl"):
        run("--report-only")


def test_settings_are_the_experiments_the_trial_runs_or_what_was_typed(tmp_path):
    experiment, _ = counting(tmp_path, settings={"size": 9, "name": None}, quick={"size": 1})
    sizes = [
        Run(experiment, [], quick=quick, **typed).settings.size
        for quick, typed in ((False, {}), (True, {}), (True, {"size": 3}))
    ]
    assert sizes == [9, 1, 3]
    assert command.value_of("3") == 3
    assert command.value_of("text8") == "text8"


def test_a_peer_that_is_missing_ends_a_full_run_and_is_left_out_of_a_trial(tmp_path, capsys):
    experiment, _ = counting(tmp_path)
    with pytest.raises(SystemExit, match="nobody"):
        Run(experiment, [], quick=False).need("nobody", "no-such-package")
    assert not Run(experiment, [], quick=True).need("nobody", "no-such-package")
    assert "left out" in capsys.readouterr().err
    assert Run(experiment, [], quick=False).need("numpy", "numpy")


def test_a_failure_is_reported_by_its_last_line():
    result = in_process("eval.speed_process", "train", {"tool": "no such tool"}, {})
    assert result["error"].startswith("KeyError")


# ---- records


def test_the_newest_record_of_a_job_counts_but_no_failure_replaces_a_result(tmp_path):
    runs = [
        ({"n": 1}, {"value": 1}),
        ({"n": 2}, {"error": "no memory"}),
        ({"n": 1}, {"value": 2}),
        ({"n": 1}, {"error": "no"}),
    ]
    records = made_up(tmp_path / "raw", runs)
    assert records.get({"n": 1}) == {"value": 2}
    assert records.get({"n": 2}) is None
    assert [record["job"]["n"] for record in records.find()] == [2, 1]
    # a measure
    assert made_up(tmp_path / "raw", [({"n": 1}, {"error": 0.25})]).get({"n": 1}) == {"error": 0.25}


def test_records_of_another_environment_are_mixed_in_only_where_asked_for(tmp_path):
    path = tmp_path / "raw"
    made_up(path, [({"n": 1}, {"value": 1})])
    other = environment() | {"id": "f"}
    Records(path, other, mixed=True).add({"n": 2}, {"value": 2}, "s")
    assert [record["job"]["n"] for record in Records(path, mixed=True).find()] == [1, 2]
    assert [record["job"]["n"] for record in Records(path).find()] == [2]


def test_jobs_that_are_compared_come_from_the_newest_environment_that_has_any_of_them(tmp_path):
    path = tmp_path / "raw"
    made_up(path, [({"table": "a", "n": n}, {"value": n}) for n in (1, 2)])
    made_up(path, [({"table": "b", "n": 1}, {"value": 3})])
    Records(path, environment() | {"id": "f"}).add({"table": "a", "n": 2}, {"value": 4}, "s")
    records = Records(path, compared=lambda job: job["table"])
    assert records.results(table="a") == [{"value": 4}]
    assert records.results(table="b") == [{"value": 3}]


def test_results_that_do_not_depend_on_the_machine_come_from_all_environments(tmp_path):
    path = tmp_path / "raw"
    runs = [({"score": True, "n": n}, {"value": n}) for n in (1, 2)]
    made_up(path, [*runs, ({"score": False, "n": 1}, {"value": 3})])
    other = environment() | {"id": "f"}
    for score in (True, False):
        Records(path, other).add({"score": score, "n": 2}, {"value": 4}, "s")

    def compared(job):
        return None if job["score"] else "seconds"

    for records in (Records(path, compared=compared), Records(path, other, compared=compared)):
        assert records.results(score=True) == [{"value": 1}, {"value": 4}]
        assert records.results(score=False) == [{"value": 4}]


# ---- the modules


def test_the_import_graph_of_eval_has_no_circle():
    modules = {f"eval.{file.stem}": file for file in (ROOT / "eval").glob("*.py")}
    graph = {}
    for name, file in modules.items():
        graph[name] = set()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                graph[name] |= {
                    node.module,
                    *(f"{node.module}.{alias.name}" for alias in node.names),
                } & modules.keys()
            elif isinstance(node, ast.Import):
                graph[name] |= {alias.name for alias in node.names} & modules.keys()
    assert "eval.page" in graph["eval.speed_tables"]
    while leaves := {name for name, needed in graph.items() if not needed}:
        graph = {name: needed - leaves for name, needed in graph.items() if name not in leaves}
    assert graph == {}


def test_every_name_that_eval_imports_is_there():
    """In functions too, whose imports wait until a process measures."""
    for file in (ROOT / "eval").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in ("embedx", "eval"):
                exec(ast.unparse(node), {})


def test_the_experiments_are_listed(capsys):
    command.main([])
    assert [line.split()[3] for line in capsys.readouterr().out.splitlines()] == [
        *EXPERIMENTS,
        "overview",
        "data",
    ]


def test_the_readme_of_eval_names_every_experiment_and_module():
    text = (ROOT / "eval" / "README.md").read_text("utf-8")
    assert re.findall(r"(?m)^\| `([\w-]+)` \|.*\| \[", text) == list(EXPERIMENTS)
    assert set(re.findall(r"(?m)^(\w+\.py)", text)) == {
        file.name for file in (ROOT / "eval").glob("[a-z]*.py")
    }
    for name in ("speed", "speed-classification", "objectives"):
        sections = next(
            words
            for what, words in experiment_called(name).choices.items()
            if what in ("section", "part")
        )
        assert all(f"| `{section}` |" in text for section in sections)


# ---- what a record holds, and what a table says of its records


def test_a_record_has_machine_versions_settings_seed_and_hashes(tmp_path):
    environment_now = environment_of({"data": {"mnist": {"sha256": "x"}}}, ("scipy",), "command")
    records = Records(tmp_path / "raw.jsonl", environment_now)
    records.add({"data": "mnist", "seed": 3}, {"score": 1}, "s", {"seconds": 2.0})
    records.add({"data": "mnist"}, {"score": 2}, "s")
    first, *rows = map(json.loads, (tmp_path / "raw.jsonl").read_text("utf-8").splitlines())
    assert first["environment"]["machine"]["cpu"]
    assert {"Python", "embedx", "numpy", "numba", "scipy"} <= first["environment"][
        "versions"
    ].keys()
    assert [row["seed"] for row in rows] == [3, 1]
    assert rows[0]["settings"] == {"seconds": 2.0}
    for row in rows:
        assert row["environment"] == first["environment"]["id"]
        assert (row["sources"], len(row["eval"])) == ("s", 12)


def test_a_table_of_several_states_of_the_sources_says_so(tmp_path):
    records = Records(tmp_path / "raw.jsonl", environment())
    records.add({"tool": "a"}, {"score": 1}, "first")
    records.add({"tool": "b"}, {"score": 2}, "second")
    records.add({"tool": "c"}, {"error": "failed"}, "third")

    def scores(tools):
        return lambda of: table([{"score": of.get({"tool": tool})["score"]} for tool in tools])

    one = records.with_states(scores("b"))
    assert one == scores("b")(records)
    assert records.with_states(scores("ab")).endswith(
        "\n\nStates of embedx's sources, and records of each: first (1), second (1)."
    )
    all_of_them = records.with_states(lambda of: str(len(of.results())))
    assert "second (1)" in all_of_them
    assert "third (1)" in all_of_them


def test_the_data_of_a_run_are_on_record(workdir):
    (workdir / "bibtex").mkdir()
    for half in ("train", "test"):
        (workdir / "bibtex" / f"{half}.txt").write_text("2 2 2\n0 0:1\n1 1:1\n")
    facts = datasets.facts_of(["bibtex", "mnist"], None)
    assert list(facts) == ["bibtex"]
    assert facts["bibtex"]["recipe"] == "bibtex:lsml"
    assert facts["bibtex"]["bytes"] == 2 * 18


def test_splits_of_bibtex_are_data_sets_of_their_own():
    names = ("bibtex", "bibtex-xc", "bibtex-mulan")
    recipes = [datasets.recipe_of(name, None).name for name in names]
    assert recipes == ["bibtex:lsml", "bibtex", "bibtex-mulan"]


def test_rows_of_a_recipe_without_rows_to_test_on_are_divided(workdir):
    (workdir / "lshtc" / "wiki-small").mkdir(parents=True)
    rows = [f"{n % 4},7 {n + 1}:1\n" for n in range(40)]
    (workdir / "lshtc" / "wiki-small" / "train.txt").write_text("".join(rows))
    halves = datasets.halves("lshtc-wiki-small", None)
    assert [len(half) for half in halves] == [30, 10]
    columns = [half.features.indices.tolist() for half in halves]
    assert sorted(columns[0] + columns[1]) == list(range(40))


@pytest.mark.parametrize("packed", ["gz", "bz2"])
def test_copies_of_data_that_are_packed_otherwise_have_the_same_facts(workdir, packed):
    opened = {"gz": gzip.open, "bz2": bz2.open}[packed]
    for n, half in enumerate(("train", "test")):
        (workdir / "bibtex").mkdir(exist_ok=True)
        (workdir / "bibtex" / f"{half}.txt").write_text(f"1 2 2\n{n} 0:1\n")
    plain = datasets.facts_of(["bibtex"], None)["bibtex"]
    other = workdir / "data" / "embedx" / "corpora" / "bibtex"
    other.mkdir(parents=True)
    for half in ("train", "test"):
        file = workdir / "bibtex" / f"{half}.txt"
        # whatever its name
        with opened(other / f"{half}.txt.gz", "wb") as target:
            target.write(file.read_bytes())
        file.unlink()
    assert datasets.facts_of(["bibtex"], None)["bibtex"] == plain | {"file": "train.txt.gz"}


# ---- without data


# Of `scale` the preparation of other sections trains.
QUICKLY_PREPARED = {"scale": ["reading"]}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_trial_run_is_prepared_without_data(name, workdir, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    run = Run(experiment_called(name), QUICKLY_PREPARED.get(name, []), quick=True)
    run.check_data()
    run.folder = workdir / "run"
    run.folder.mkdir()
    facts = run.experiment.prepare(run)
    assert facts.keys() & {"corpus", "data"}
    assert datasets.facts_of(run.experiment.needs(run), None).keys() <= {"wikipedia-sample"}


def test_a_generated_dump_stands_for_the_one_that_is_not_here(workdir, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    monkeypatch.setattr(scale, "DUMP", "enwik9")
    run = Run(experiment_called("scale"), ["reading", "dump"], quick=True)
    file = workdir / "dump.xml.bz2"
    file.write_bytes(bz2.compress(scale.dump_of(run)))
    assert scale.read_embedx(str(file), 1)["tokens"] > corpus.GENERATED_LINES


def test_graphs_and_sessions_are_generated_for_a_trial_run(workdir, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    run = Run(experiment_called("graphs"), ["links", "sessions"], quick=True)
    run.folder = workdir
    graphs.prepare(run)
    known, hidden, others = (
        {tuple(line.split("\t")) for line in Path(run.files[name]).read_text().splitlines()}
        for name in ("ca-astroph", "ca-astroph-links", "ca-astroph-others")
    )
    assert len(hidden) == pytest.approx(len(known), abs=1)
    assert not (known | hidden) & others
    items, later_items = (
        set(Path(run.files[name]).read_text().split()) for name in ("diginetica", "diginetica-test")
    )
    assert later_items <= items


@pytest.mark.parametrize("name", ["speed-classification", "speed-many-labels", "graphs"])
def test_data_that_the_chosen_jobs_do_not_read_are_not_needed(name, workdir, monkeypatch, capsys):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    chosen = {"speed-classification": "scaling", "speed-many-labels": "generated"}
    run = Run(experiment_called(name), [chosen.get(name, "memory")], quick=False)
    assert run.experiment.needs(run) == []
    run.check_data()
    run = Run(experiment_called(name), [], quick=False)
    with pytest.raises(SystemExit):
        run.check_data()
    assert "`python -m eval data " in capsys.readouterr().err


def test_a_full_run_needs_the_word_pairs_and_a_trial_pools_those_that_are_here(
    workdir, monkeypatch, capsys
):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    (workdir / "text").write_text("a line of text\n")
    (workdir / "run").mkdir()
    full, trial = (
        Run(experiment_called("subwords"), [], quick=quick, corpus="text")
        for quick in (False, True)
    )
    full.folder = trial.folder = workdir / "run"
    with pytest.raises(SystemExit):
        corpus.unpacked(full)
    assert "`python -m eval data word-pairs`" in capsys.readouterr().err
    corpus.unpacked(full, pools_pairs=False)
    corpus.unpacked(trial)
    assert "pooled without them" in capsys.readouterr().err
    with_word_pairs(workdir)
    assert list(word_tests.pair_files(workdir)) == ["MTurk-287", "RG-65", "YP-130"]
    corpus.unpacked(full)
    assert capsys.readouterr().err == ""
