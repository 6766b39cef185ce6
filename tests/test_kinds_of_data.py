"""Defaults by kind of data: a table with a line for each, which runs follow and show."""

import json
import re

import pytest

import embedx
from embedx.comparison.settings import CompareSettings
from embedx.comparison.text import TextData
from embedx.errors import InapplicableError
from embedx.objectives import OBJECTIVES
from embedx.skipgram import defaults
from embedx.skipgram.configuration import configure
from embedx.skipgram.settings import SkipGramSettings
from embedx.text.settings import VocabularySettings
from tests.support.commands import run_command
from tests.support.refusals import refused

SESSIONS = {"format": "sessions"}
KINDS = {"text": {}, "sessions": SESSIONS, "walks": {"walks": 5}}
ORDERS = "bread butter jam\nbread butter\nbeer chips\nbeer chips salsa\n" * 20
BASKETS = "1:2 3:4 5:6\n3:4 1:2\n" * 20


@pytest.fixture
def orders(tmp_path):
    file = tmp_path / "orders.txt"
    file.write_text(ORDERS)
    return file


@pytest.fixture
def run(tmp_path):
    """What `embedx` prints for some arguments."""

    def run(*words):
        return run_command(tmp_path, *words, "--threads", 1, "--dim", 4).stdout

    return run


@pytest.mark.parametrize("kind", defaults.DEFAULTS_BY_KIND)
@pytest.mark.parametrize("setting", ["window", "negatives"])
def test_a_default_for_a_kind_of_data_is_one_line(kind, setting, monkeypatch):
    monkeypatch.setitem(defaults.DEFAULTS_BY_KIND[kind], setting, 11)
    for name, options in KINDS.items():
        config = configure("ns", options)
        assert (config.record()[setting] == 11) == (name == kind)
        if name == kind:
            assert config.origins[setting] == f"default for {kind}"
    chosen = configure("ns", {**KINDS[kind], setting: 3})
    assert chosen.record()[setting] == 3
    assert setting not in chosen.origins


@pytest.mark.parametrize("objective", ["mips", "nested-ove", "implicit"])
def test_default_negatives_for_sessions_leave_the_draws_of_an_objective(objective, monkeypatch):
    usual = configure(objective, SESSIONS).settings.draws
    assert usual == OBJECTIVES[objective].word_defaults["draws"]
    monkeypatch.setitem(defaults.DEFAULTS_BY_KIND["sessions"], "negatives", 10)
    config = configure(objective, SESSIONS)
    assert config.record()["negatives"] == 10
    assert config.settings.draws == usual


@pytest.mark.parametrize("objective", ["mips", "nested-ove", "implicit"])
def test_negatives_that_are_given_decide_the_draws_of_a_block(objective):
    config = configure(objective, {**SESSIONS, "negatives": 10})
    assert config.settings.draws is None
    both = configure(objective, {**SESSIONS, "negatives": 10, "draws": 40})
    assert both.settings.draws == 40


def test_an_objective_that_draws_nothing_ignores_default_negatives(monkeypatch):
    monkeypatch.setitem(defaults.DEFAULTS_BY_KIND["sessions"], "negatives", 10)
    config = configure(None, SESSIONS)
    assert config.objective.name == "hs"
    assert "negatives" not in config.record()
    assert "negatives" not in config.origins


def test_sessions_have_defaults_of_their_own():
    config = configure(None, SESSIONS)
    values = {"objective": config.objective.name, **config.record()}
    assert values | defaults.DEFAULTS_BY_KIND["sessions"] == values
    assert values["objective"] != defaults.DEFAULT_OBJECTIVE
    of_sessions = defaults.DEFAULTS_BY_KIND["sessions"].keys() & {"objective", *config.record()}
    assert config.origins == dict.fromkeys(of_sessions, "default for sessions")

    text = configure(None, {})
    assert text.objective.name == "ns"
    assert text.settings.epochs == SkipGramSettings.epochs
    assert text.vocabulary.min_count == VocabularySettings.min_count
    assert text.origins == {}


def test_given_settings_override_the_defaults_of_sessions():
    config = configure("ns", {**SESSIONS, "sample": 0.01})
    assert config.objective.name == "ns"
    assert config.vocabulary.sample == 0.01
    assert config.origins == dict.fromkeys(("epochs", "min_count"), "default for sessions")


def test_a_corpus_known_by_name_may_be_sessions():
    assert configure(None, {}, defaults=SESSIONS).objective.name == "hs"


def test_sessions_are_no_graph():
    with refused("format", "walks", kind=InapplicableError):
        configure(None, {**SESSIONS, "walks": 5})


def test_a_dry_run_shows_where_a_default_comes_from(orders, run):
    lines = run("train", orders, "--format", "sessions", "--dry-run").splitlines()
    assert "objective\ths, chosen: default for sessions" in lines
    assert "min-count\t1, chosen: default for sessions" in lines
    plan = json.loads(run("train", orders, "--format", "sessions", "--dry-run", "--json"))
    assert plan["settings"]["min_count"] == 1
    assert plan["chosen"]["min_count"] == "default for sessions"


def test_a_model_keeps_where_its_settings_come_from(orders, run, tmp_path):
    run("train", orders, "--format", "sessions", "--output", tmp_path / "items")
    info = run_command(tmp_path, "info", tmp_path / "items").stdout
    assert "objective\ths (default for sessions)\n" in info
    assert "sample=0 (default for sessions)" in info
    record = json.loads(run_command(tmp_path, "info", tmp_path / "items", "--json").stdout)
    assert record["chosen"]["sample"] == "default for sessions"


@pytest.mark.parametrize(
    ("options", "noun"), [(["--format", "sessions"], "item"), (["--walks", "2"], "node")]
)
def test_commands_and_pages_speak_of_items_and_nodes(tmp_path, options, noun):
    (tmp_path / "data.txt").write_text("a b\nb c\nc d\nd e\ne a\na c\n" * 20)

    def run_here(*words, check=True):
        return run_command(tmp_path, *words, check=check)

    dims = ["--dim", "4", "--threads", "1", "--epochs", "2"]
    completed = run_here("train", "data.txt", *options, *dims, "--output", "model")
    assert re.search(rf"\t5 {noun}s, loss .* {noun}s/s$", completed.stdout, re.MULTILINE)
    assert f"vocabulary: 5 {noun}s" in completed.stderr
    assert f"{noun}s\t5" in run_here("info", "model").stdout.splitlines()
    (answer,) = json.loads(run_here("analogy", "model", *"abc", "--top-k", "1", "--json").stdout)
    assert list(answer) == [noun, "cosine"]
    failed = run_here("analogy", "model", "a", "b", check=False)
    assert f"fewer than three {noun}s" in failed.stderr
    failed = run_here("nn", "model", "zzz", check=False)
    assert f"zzz: not among the 5 {noun}s of the model" in failed.stderr

    model = embedx.load(tmp_path / "model")
    assert repr(model).startswith(f"WordVectors(5 {noun}s, dim 4")
    word_map = embedx.word_map(model, projection="pca")
    assert repr(word_map).startswith(f"5 {noun}s by ")
    assert word_map.to_frame().columns[0] == noun

    run_here("report", "model", "--output", "page.html")
    page = (tmp_path / "page.html").read_text()
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert (
        re.findall(r"\bwords?\b", text.replace("English words", "").split("Facts of the run")[0])
        == []
    )


def test_training_continues_with_sessions(orders):
    model = embedx.train(str(orders), format="sessions", dim=4, threads=1)
    continued = configure(None, {"start": "items"}, model=model)
    assert continued.kind == "sessions"
    assert continued.vocabulary.min_count == 1
    assert continued.text.format == "sessions"


def test_baskets_are_sessions_although_they_look_like_labelled_data(tmp_path):
    (tmp_path / "baskets.txt").write_text(BASKETS)
    model = embedx.train(str(tmp_path / "baskets.txt"), format="sessions", dim=4, threads=1)
    assert set(model.words) == {"1:2", "3:4", "5:6"}


def test_python_has_the_same_default_objective():
    assert embedx.SkipGram(format="sessions").config.objective.name == "hs"
    assert embedx.SkipGram("ns", format="sessions").config.objective.name == "ns"
    assert embedx.SkipGram().config.objective.name == "ns"


def test_the_default_objective_follows_the_data_that_are_set_later(orders, tmp_path):
    words = embedx.SkipGram(dim=4)
    assert words.set_params(format="sessions").config.objective.name == "hs"
    assert words.set_params(format=None).config.objective.name == "ns"
    assert words.set_params(objective="ove", format="sessions").config.objective.name == "ove"
    assert words.set_params(objective=None).config.objective.name == "hs"

    embedx.SkipGram("ar", dim=4, min_count=1).fit(str(orders)).save(tmp_path / "ar")
    assert embedx.SkipGram().set_params(start=tmp_path / "ar").config.objective.name == "ar"


def test_models_of_sessions_are_compared_by_next_items(orders):
    data = TextData([str(orders)], {}, CompareSettings(), next_item=str(orders))
    assert data.request("ns").options["format"] == "sessions"
    assert configure("ns", data.options).vocabulary.min_count == 1
    walks = TextData([str(orders)], {"walks": 2}, CompareSettings(), next_item=str(orders))
    assert "format" not in walks.options


def test_names_of_nodes_with_punctuation_are_no_raw_text(tmp_path):
    (tmp_path / "edges.csv").write_text('"a, b",c\n"a, b",d\nc,d\nd,"a, b"\n')
    completed = run_command(tmp_path, "train", "edges.csv", "--walks", "5", "--threads", "1")
    assert "node frequencies" in completed.stderr
    assert "--tokenizer" not in completed.stderr


def test_epochs_and_a_time_budget_are_not_both_given_in_python():
    with refused("epochs", kind=InapplicableError):
        embedx.SkipGram(epochs=3, time_budget="1m")


def test_a_model_of_python_has_the_versions_that_trained_it(orders):
    fitted = embedx.SkipGram(format="sessions", dim=4, threads=1, epochs=1).fit(str(orders))
    assert fitted.model.facts["versions"].keys() == {"python", "numpy", "numba", "scipy"}
