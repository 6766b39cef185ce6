"""eval: the pages say what the records do, a run keeps what it measures, and no module needs
itself.
"""

import ast
import functools
import json
import re
import sys

import pytest

from eval import __main__ as command, datasets, papers_one_vs_each_fits
from eval.experiment import Experiment, in_process, parts_of
from eval.page import MARKED, filled, table
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
)


@functools.cache
def published(name):
    experiment = experiment_called(name)
    return (
        experiment,
        experiment.records_in(RESULTS),
        experiment.page_in(RESULTS).read_text("utf-8"),
    )


# ---- the published pages


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_generated_parts_of_a_page_are_what_the_records_make(name):
    experiment, records, text = published(name)
    assert filled(text, parts_of(experiment, records), RESULTS / name) == text, (
        f"python -m eval {name} --report-only"
    )


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_picture_is_made_and_shown(name):
    experiment, records, text = published(name)
    linked = set(re.findall(r"\]\((?:\.\./eval/results/)?([\w-]+\.png)\)", text))
    pictures = {f"{name}{which}.png": draw for which, draw in experiment.plots.items()}
    assert linked <= set(pictures)
    # What has no records yet has no picture.
    assert all(pictures[picture](records) is None for picture in set(pictures) - linked)
    assert all((RESULTS / picture).stat().st_size > 10_000 for picture in linked)


# Numbers with decimals in hand-written sentences: a number must stand in one of the page's tables,
# follow from the records by the line that has it below, or be stated here: a setting, a number of
# the paper's, or an observation without record.
STATED = {
    "speed": "0.0001 0.010 1.0",
    "speed-classification": "0.005",
    "speed-many-labels": "0.005 5.7 0.25",
    "defaults": ("0.1 0.574 2.69 0.604 1.84 0.614 0.547 0.568 0.533 0.553 0.576 0.597 0.555 0.765"),
    "unknown-labels": "0.8",
    "metric-learning": "0.009 0.010",
    "gaussian-weights": "0.03 0.1",
    "word-intervals": "",
    "related": "0.0001",
    "bounds": "0.75",
    "objectives": "0.15",
    "papers-augment-and-reduce": (
        "0.03 0.31 0.6e-6 0.1 0.01 0.02 0.9 0.8 0.11 0.26 0.50 0.001 4.1 0.1.0 3.11.7"
    ),
    "papers-one-vs-each": (
        "0.1.0 3.11.7 0.622 2.793 0.095 0.162 0.64 0.09 0.010 0.11 0.7 0.9 0.5 0.3 0.1 2.5 4.1"
        " 0.10 0.53 0.50 0.001"
    ),
    "papers-unbiased-softmax": (
        "0.9 0.1.0 3.11.7 0.73 0.75 0.62 0.64 1.461 4.008 6.136 4.743 1.414 0.1"
    ),
    "papers-adversarial": "1.5 7.5e-4 2.8e-4 2.3e-4 0.5e-4 0.3",
    "adversarial-words": "",
    "search-proposal": "",
    "step-sizes": "0.8",
    "implicit-minibatches": "0.9",
    "scale": "1.1 25.0 14.2 7.3",  # of PECOS, and in proportion to it
    "subwords": "",
    "cluster": "0.8 1.05 1.15 0.026",  # what was aimed at, and a second seed
    "papers-ldgs": "0.1.0 3.11.7 0.771",
    "graphs": "0.03 0.04 0.06 0.25 0.961",
}


def claims_of_adversarial():
    module, records = module_of("papers-adversarial")
    ends = [
        module.curves(records, name)["uniform"][0]["points"][-1]
        for name in ("eurlex", "categories")
    ]
    yield (
        "at the end is {:.4f} on EURLex and {:.4f} on the categories",
        *(end["accuracy error"] for end in ends),
    )


def claims_of_one_vs_each():
    _, records = module_of("papers-one-vs-each")

    def ove(method, measure, biases="free"):
        return records.get(papers_one_vs_each_fits.optimum("bibtex", method, biases))[measure]

    def moved(measure):
        return max(
            abs(ove(m, measure) - ove(m, measure, "penalised"))
            for m in papers_one_vs_each_fits.METHODS
        )

    below = {
        measure: [
            paper - ove(m, measure)
            for m, paper in zip(papers_one_vs_each_fits.METHODS, published, strict=True)
        ]
        for measure, published in (
            ("nlpd", (2.793, 2.955, 2.888)),
            ("error", (0.622, 0.621, 0.636)),
        )
    }
    yield (
        "OVE's nlpd exceeds SOFT's by {:.3f} (paper 0.095)",
        ove("OVE", "nlpd") - ove("SOFT", "nlpd"),
    )
    yield "BOUCHARD's by {:.3f} (paper 0.162)", ove("BOUCHARD", "nlpd") - ove("SOFT", "nlpd")
    yield (
        "by nearly the same amount, {:.3f} to {:.3f} in nlpd",
        min(below["nlpd"]),
        max(below["nlpd"]),
    )
    yield (
        "and {:.3f} to {:.3f} in error, whatever the method",
        min(below["error"]),
        max(below["error"]),
    )
    yield (
        "one standard error by the choice of test rows is {:.3f} in nlpd",
        ove("SOFT", "standard_error"),
    )
    yield (
        "from OVE on Bibtex: {:.3f} by sums, {:.3f} by lengths",
        ove("OVE", "norm"),
        ove("OVE", "norm_2"),
    )
    yield "change nlpd by less than 0.00{:.0f}", 1 + 1000 * moved("nlpd") // 1
    yield "error by at most {:.3f}", moved("error")


def claims_of_augment_and_reduce():
    module, records = module_of("papers-augment-and-reduce")

    def of(name, method, measure="log_likelihood_clamped", **changes):
        start = {"start": "random"} if not changes and name != "mnist" else {}
        return records.get(module.one(name, method, 1, False, **(changes or start)))[measure]

    def minus_paper(name, measure="log_likelihood_clamped", **paper):
        return [
            of(name, method.replace("_", "-"), measure) - value for method, value in paper.items()
        ]

    other = {"start": "random", "augment": "utility"}
    omniglot = minus_paper("omniglot", ove=-5.667, ar=-5.171, ar_logistic=-5.395)
    accuracy = minus_paper(
        "omniglot", "accuracy", ove=0.179, ar=0.201, ar_probit=0.178, ar_logistic=0.184
    )
    above = sum(minus_paper("bibtex", softmax=-3.188, ove=-3.300, ar=-3.036)) / 3
    softmax = {"section": "table-3", "data": "bibtex", "method": "softmax", "iterations": 5000}
    pace = {
        method: 1e6 / 60_000 * sorted(records.get(module.timing("mnist", False))[method])[5]
        for method in ("ove", "ar")
    }
    yield "A&R leads one-vs-each by {:.2f} in both", of("bibtex", "ar") - of("bibtex", "ove")
    yield "by 0.11 in the paper and {:.2f} here", of("bibtex", "softmax") - of("bibtex", "ove")
    yield (
        "A&R leads one-vs-each by more, {:.2f} nats (paper 0.50)",
        of("omniglot", "ar") - of("omniglot", "ove"),
    )
    yield "are {:.2f} to {:.2f} nats below the paper", -max(omniglot), -min(omniglot)
    yield "and all accuracies {:.2f} to {:.2f}", -max(accuracy), -min(accuracy)
    yield (
        "better than the paper's by {:.2f}, as it is on Bibtex",
        *minus_paper("omniglot", ar_probit=-7.350),
    )
    yield "are all some {:.2f} nats above the paper", above
    yield (
        "above the paper, {:.1f} standard errors",
        above / of("bibtex", "softmax", "log_likelihood_standard_error"),
    )
    yield (
        "the mean of |n_k/N - p_k|, is {:.1f}e-5",
        1e5 * records.last(section="toy", method="ar")["noise"],
    )
    yield (
        "interpolates (log-likelihood of {:.2f} on the training rows)",
        of("bibtex", "softmax", "training_log_likelihood"),
    )
    plain = records.get(softmax | {"seed": 1})["log_likelihood"]
    yield "costs the exact softmax {:.2f} nats", plain - of("bibtex", "softmax")
    yield "our probit is {:.2f} nats better", *minus_paper("bibtex", ar_probit=-4.184)
    authors = of("bibtex", "ar-probit", start="random", entropy=False, local_rate=0.001)
    yield "in the authors' code it loses {:.3f}", of("bibtex", "ar-probit") - authors
    yield (
        "the state of the utility it loses {:.2f}",
        of("bibtex", "ar-probit") - of("bibtex", "ar-probit", **other),
    )
    yield "and A&R loses {:.2f}", of("bibtex", "ar") - of("bibtex", "ar", **other)

    def default_loses(method, measure="log_likelihood_clamped"):
        return of("mnist", method, measure) - of("mnist", method, measure, augment="utility")

    yield "A&R loses {:.3f} nats, a fifth", default_loses("ar")
    yield (
        "probit loses {:.3f} nats and {:.3f} of accuracy",
        default_loses("ar-probit"),
        default_loses("ar-probit", "accuracy"),
    )
    from_standard = of("bibtex", "ar-probit", **module.FROM_STANDARD[1])
    yield "the paper, it loses {:.2f}", of("bibtex", "ar-probit") - from_standard
    by_iterations = {"start": "random"} | module.by_iterations("ar", "bibtex")
    on_bibtex = of("bibtex", "ar", **by_iterations) - of("bibtex", "ar")
    on_mnist = of("mnist", "ar") - of("mnist", "ar", **module.by_iterations("ar", "mnist"))
    yield "A&R is {:.3f} nats better on test rows; on MNIST it is {:.3f} worse", on_bibtex, on_mnist
    probit_by_iterations = {"start": "random"} | module.by_iterations("ar-probit", "bibtex")
    yield (
        "Probit moves by {:.3f} on Bibtex",
        of("bibtex", "ar-probit") - of("bibtex", "ar-probit", **probit_by_iterations),
    )
    best = records.last(section="best", data="bibtex", program="embedx")["log_likelihood"]
    yield "weight decay gains {:.2f} nats", best - of("bibtex", "softmax")
    yield "{:.3f} with two seeds", records.get(softmax | {"seed": 2})["log_likelihood"]
    yield "0.30 microseconds for each example where one-vs-each takes {:.1f} in all", pace["ove"]
    yield "{:.2f} microseconds for each example", pace["ar"] - pace["ove"]


def claims_of_unbiased_softmax():
    module, records = module_of("papers-unbiased-softmax")

    def of(name, method, at="tuned", measure="log_loss", kind="train"):
        rates = {
            "tuned": module.tuned(records, name, method),
            "paper": module.PAPER_RATES[name][method],
        }
        return module.value(
            records, module.one(records, name, method, rates.get(at, at)), kind, measure
        )

    def over_implicit(name):
        ratios = [of(name, method) / of(name, "Implicit") for method in ("OVE", "NCE", "IS")]
        return min(ratios), max(ratios)

    published = {"OVE": 5.73, "NCE": 6.05, "IS": 5.74}
    errors = [
        of("bibtex", m, at, "error", "test")
        for m in ("OVE", "NCE", "IS", "U-max", "Implicit")
        for at in ("tuned", "paper")
    ]
    tuned = of("bibtex", "NCE", 10.0), of("bibtex", "IS", 10.0), of("bibtex", "Implicit", 100.0)
    implicit = [
        abs(of(name, "Implicit", "paper") - paper)
        for name, paper in (("mnist", 0.295), ("bibtex", 0.333))
    ]
    yield "they are {:.1f} to {:.1f} times Implicit's on MNIST", *over_implicit("mnist")
    yield "{:.1f} to {:.1f} times on EURLex-4.3K", *over_implicit("eurlex-4.3k")
    yield "and {:.1f} to {:.1f} times on Bibtex", *over_implicit("bibtex")
    yield "NCE has {:.3f}, IS {:.3f}, Implicit {:.3f}", *tuned
    yield (
        "ours equal them on MNIST within {:.3f}",
        max(
            abs(of("mnist", method, "paper", "doubled") - 0.271 * ratio)
            for method, ratio in published.items()
        ),
    )
    yield (
        "Implicit {:.3f} and OVE {:.3f}. At the",
        of("bibtex", "Implicit", 100.0),
        of("bibtex", "OVE", 0.1),
    )
    yield "log-loss is that of the authors' files within {:.3f} on MNIST", max(implicit)
    yield (
        "Test errors on Bibtex, Vanilla aside, are {:.2f} to {:.2f} here",
        min(errors),
        max(errors),
    )
    yield "rate 0.1 ours ends at {:.3f}", of("bibtex", "U-max", "paper")
    yield "(1) our U-max reaches {:.3f}", of("bibtex", "U-max", 1.0)


CLAIMS = {  # by page: sentences with places for numbers, and the numbers
    "papers-adversarial": claims_of_adversarial,
    "papers-one-vs-each": claims_of_one_vs_each,
    "papers-augment-and-reduce": claims_of_augment_and_reduce,
    "papers-unbiased-softmax": claims_of_unbiased_softmax,
}


def module_of(name):
    return sys.modules[experiment_called(name).jobs.__module__], published(name)[1]


def stated(name):
    """The sentences of a page whose numbers follow from its records."""
    return (
        [sentence.format(*values) for sentence, *values in CLAIMS[name]()] if name in CLAIMS else []
    )


def prose(name):
    """A page without its tables, in one line."""
    text = re.sub(r"^\| .*$", "", MARKED.sub("", published(name)[2]), flags=re.MULTILINE)
    return re.sub(r"\s+", " ", text).replace("−", "-")


@pytest.mark.parametrize("name", CLAIMS)
def test_what_a_sentence_states_follows_from_the_records(name):
    text = prose(name)
    assert [sentence for sentence in stated(name) if sentence not in text] == []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_number_in_a_sentence_is_checked(name):
    decimal = r"(?<![\w.])\d+(?:\.\d+)+(?:e[+-]?\d+)?(?![\w])"
    text = published(name)[2]
    tables = " ".join(
        [
            *(match[3] for match in MARKED.finditer(text)),
            *re.findall(r"^\| .*$", text, re.MULTILINE),
        ]
    )
    known = {*re.findall(decimal, tables), *STATED[name].split()}
    known |= set(re.findall(decimal, " ".join(stated(name))))
    # without names of data sets
    numbers = set(re.findall(decimal, re.sub(r"\S*(?:\d\.\d+K|text8)\S*", "", prose(name))))
    assert numbers - known == set()
    assert set(STATED[name].split()) <= numbers  # none is vouched for that is not there


# ---- the runner


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
    with path.open("a") as file:
        file.write(json.dumps({"job": {"n": 3}, "result": {"value": 3}}) + "\n")
    other = environment() | {"id": "f"}
    Records(path, other, mixed=True).add({"n": 2}, {"value": 2}, "s")
    assert [record["job"]["n"] for record in Records(path, mixed=True).find()] == [1, 3, 2]
    assert (
        "1 measurements from before machine and time were recorded"
        in Records(path, mixed=True).circumstances()
    )
    assert [record["job"]["n"] for record in Records(path).find()] == [2]


def test_jobs_that_are_compared_come_from_the_newest_environment_that_has_any_of_them(tmp_path):
    path = tmp_path / "raw"
    made_up(path, [({"table": "a", "n": n}, {"value": n}) for n in (1, 2)])
    made_up(path, [({"table": "b", "n": 1}, {"value": 3})])
    Records(path, environment() | {"id": "f"}).add({"table": "a", "n": 2}, {"value": 4}, "s")
    records = Records(path, compared=lambda job: job["table"])
    assert records.results(table="a") == [{"value": 4}]
    assert records.results(table="b") == [{"value": 3}]


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
    assert facts["bibtex"]["bytes"] == 18
