"""The commands as a user types them."""

import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.runtime.progress import Reporter
from embedx.tasks.output import default_output
from embedx.vectors import formats
from embedx.vectors.model import WordVectors
from tests.support.commands import run_command, words_of
from tests.support.needs import needs_gensim
from tests.support.two_topics import CARS, CATS


@pytest.fixture(scope="module")
def trained(home, two_topics):
    """`embedx train` on the two-topic corpus: (home, model folder, the completed process)."""
    options = words_of("--dim 20 --epochs 5 --sample 0 --threads 2 --json")
    completed = run_command(home, "train", two_topics, *options)
    return home, home / "two-topics.ns.embedx", completed


def test_train_prints_one_json_object_and_its_progress_to_standard_error(trained):
    _, folder, completed = trained
    result = json.loads(completed.stdout)
    assert result["model"] == str(folder)
    assert result["objective"] == "ns"
    assert result["settings"]["dim"] == 20
    assert result["words_trained"] == 5 * result["corpus_tokens"]
    assert 0 < result["final_loss"] < 3
    assert "dim=20" in completed.stderr
    assert "vocabulary: 16 words" in completed.stderr


def test_words_of_one_topic_are_nearest_to_each_other(trained):
    home, folder, _ = trained
    lines = run_command(home, "nn", folder, "cat", "truck", "--top-k", 3).stdout.splitlines()
    neighbours = [line.split("\t")[:2] for line in lines]
    assert {n for word, n in neighbours if word == "cat"} <= set(CATS)
    assert {n for word, n in neighbours if word == "truck"} <= set(CARS)
    assert (
        run_command(home, "analogy", folder, "cat", "dog", "car", "--top-k", 2).stdout.count("\n")
        == 2
    )
    as_typed = json.loads(run_command(home, "nn", folder, "cat", "--top-k", 1, "--json").stdout)
    assert as_typed["cat"][0]["word"] == neighbours[0][1]


def test_info_describes_a_model_and_queries_are_read_from_standard_input(trained):
    home, folder, _ = trained
    about = json.loads(run_command(home, "info", folder, "--json").stdout)
    assert (about["task"], about["objective"], about["words"]) == ("skipgram", "ns", 16)
    assert about["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert about["settings"]["dim"] == 20
    assert "lowercase" not in about["settings"]
    assert f"final loss\t{about['final_loss']:g}\n" in run_command(home, "info", folder).stdout

    model = embedx.load(folder)
    lines = "cat\n\ncat dog xyzzy\n"
    completed = run_command(home, "vectors", folder, input=lines)
    (warning,) = completed.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert warning.endswith(": 1")
    names, rows = zip(
        *(
            (row[0], np.array(row[1:], float))
            for row in map(str.split, completed.stdout.splitlines())
        ),
        strict=True,
    )
    assert names == ("cat", "cat_dog_xyzzy")
    np.testing.assert_allclose(
        rows, [model["cat"], model[["cat", "dog"]].mean(axis=0)], rtol=1e-4, atol=1e-6
    )
    run_command(home, "vectors", folder, "-o", "rows.npy", input=lines)
    np.testing.assert_allclose(
        np.load(home / "rows.npy"), [rows[0], np.zeros_like(rows[0]), rows[1]], rtol=1e-4, atol=1e-6
    )

    completed = run_command(
        home,
        "nn",
        folder,
        "-",
        "-k",
        3,
        "--restrict-vocab",
        8,
        "--exclude",
        model.words[0],
        input="cat xyzzy\ndog\n",
    )
    assert completed.stderr.startswith("embedx: xyzzy: not among the 16 words")
    answers = [line.split("\t") for line in completed.stdout.splitlines()]
    assert [word for word, *_ in answers] == ["cat"] * 3 + ["dog"] * 3
    assert {neighbour for _, neighbour, _ in answers} <= set(model.words[1:8])
    assert all(
        float(cosine) == pytest.approx(model.similarity(a, b), abs=1e-4) for a, b, cosine in answers
    )


@pytest.mark.parametrize("command", ["train", "classify"])
def test_a_dry_run_prints_the_settings_and_does_nothing(home, two_topics, command):
    options = ["--objective", "ove", "--epochs", 7, "--dry-run", "-o", "planned", "--json"]
    plan = json.loads(
        run_command(home, command, two_topics if command == "train" else "digits", *options).stdout
    )
    assert Path(plan["model"]).name == "planned"
    assert (plan["settings"]["objective"], plan["settings"]["epochs"]) == ("ove", 7)
    assert 0 < sum(plan["memory"].values()) < plan["available"]
    assert not {"beam", "trees", "patience"} & plan["settings"].keys()  # nothing that has no effect
    assert 0 < plan["disk"]["model"] < plan["disk"]["checkpoints"] < plan["disk_free"]
    assert not list(home.glob("planned*"))
    assert (
        run_command(home, command, two_topics, *options, "--negatives", 0, check=False).returncode
        == 2
    )


def test_several_files_are_named_after_their_folder(tmp_path):
    files = [tmp_path / "texts" / name for name in ("one.txt", "two.txt")]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("a b\n")
    assert str(default_output("ns", *map(str, files))) == "texts.ns.embedx"
    assert str(default_output("ns", str(files[0]))) == "one.ns.embedx"


@pytest.mark.parametrize("corpus", ["words.txt", "-"])
def test_training_on_an_empty_vocabulary_is_refused_and_keeps_the_old_model(home, corpus):
    (home / "words.txt").write_text("a\nb\n" * 9)
    if not (model := home / "kept.embedx").exists():
        WordVectors(["a"], {"input": np.ones((1, 2), np.float32)}, counts=np.array([1])).save(model)
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    completed = run_command(
        home, "train", corpus, "--output", model, "--overwrite", check=False, input="a\nb\n" * 9
    )
    assert completed.returncode == 2
    assert not completed.stdout
    assert completed.stderr.splitlines()[-1].startswith(f"embedx: {corpus}: ")
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert not list(home.glob("kept.embedx.*"))


@needs_gensim
def test_exports_are_read_and_exported_again(trained):
    home, folder, _ = trained
    words = ["--top", "15", "--vectors", "sum"]
    for step in ([folder, "a.npz", *words], ["a.npz", "a.kv"]):
        assert run_command(home, "export", *step).stdout.splitlines() == [step[1]]
    completed = run_command(home, "export", "a.kv", "a.vec.gz", check=False)
    assert completed.returncode == 2
    assert "a.kv: a pickle" in completed.stderr
    run_command(home, "export", "a.kv", "a.vec.gz", "--trust-pickle")
    original = embedx.load(folder)
    exported = embedx.load(home / "a.vec.gz")
    assert exported.words == original.words[:15]
    np.testing.assert_array_equal(
        exported.vectors, (original.vectors + original.output_vectors)[:15]
    )
    completed = run_command(home, "export", folder, "a.npz", check=False)
    refusal = completed.stderr.splitlines()[-1]
    assert refusal.startswith("embedx: a.npz: ")
    assert "--overwrite" in refusal
    help_text = " ".join(run_command(home, "export", "--help").stdout.split())
    assert all(f"`{name}`" in help_text for name in formats.FORMATS)


@pytest.mark.parametrize(
    ("arguments", "beginning", "quoted"),
    [
        ("train", "Missing argument ", "CORPORA"),
        ("nn x word --top-k 0", "Invalid value for '--top-k' / '-k': ", " 1;"),
        ("train nowhere.txt", "nowhere.txt: ", "no such file"),
        ("train TEXT --dim abc", "--dim abc: ", "whole number"),
        ("train s3://bucket/x", "s3://bucket/x: ", "pip install"),
        ("train TEXT --min-count 1000000", "--min-count 1000000: ", ""),
        ("train TEXT --time-budget soon", "--time-budget soon: ", "1h30m"),
        ("train TEXT --time-budget 5m --epochs 3", "--epochs and --time-budget ", ""),
        ("train TEXT --log-json no/such/folder/log", "--log-json no/such/folder/log: ", ""),
        ("train TEXT --dim 2000000000", "", "numbers need"),
        ("train TEXT --json-field text", "--json-field text: ", "JSON Lines"),
        (
            "train TEXT --output mistake.bin",
            "--output mistake.bin: ",
            "embedx export mistake.embedx mistake.bin",
        ),
        ("train mnist", "mnist: ", "`embedx classify mnist`"),
        ("classify digits --validation 1.5", "--validation 1.5: ", "between 0 and 1"),
        ("classify bibtexx", "bibtexx: ", "did you mean bibtex?"),
        ("classify text8", "text8: ", "`embedx train text8`"),
        ("classify FEW --label-names two", "two:3: ", '"zero"'),
    ],
)
def test_an_invalid_command_gets_one_line_and_exit_code_2_and_leaves_no_files(
    home, two_topics, arguments, beginning, quoted
):
    (home / "few.txt").write_text("2 1:1\n0 2:1\n")
    (home / "two").write_text("zero\none\nzero\n")
    words = words_of(arguments, TEXT=two_topics, FEW="few.txt")
    if len(words) > 1 and words[0] != "nn" and "--output" not in words:
        output = ["--output", "mistake"]
    else:
        output = []
    completed = run_command(home, *words, *output, check=False)
    assert completed.returncode == 2, completed.stderr
    *notes, line = completed.stderr.splitlines()
    assert line.startswith(f"embedx: {beginning}")
    assert quoted in line
    assert not any("Traceback" in note or " examples, " in note for note in notes)
    assert completed.stdout == ""
    assert not list(home.glob("mistake*"))


@pytest.mark.parametrize(
    "arguments",
    [
        "info MODEL",
        "report MODEL",
        "reproduce MODEL",
        "nn MODEL word",
        "predict MODEL rows.txt",
        "eval MODEL",
        "eval MODEL --text text.txt",
        "vectors MODEL word",
        "export MODEL model.npz",
    ],
)
def test_a_missing_model_gets_the_same_error_from_every_command(tmp_path, arguments):
    (tmp_path / "reviews.embedx").mkdir()
    words = words_of(arguments, MODEL="review.embedx")
    completed = run_command(tmp_path, *words, check=False)
    assert completed.returncode == 2
    line = completed.stderr.splitlines()[-1]
    assert re.match(r"embedx: review.embedx: no such (file or )?model folder; ", line)
    assert "did you mean reviews.embedx?" in line


def test_quiet_shows_warnings_alone_and_verbose_all_settings(home, two_topics):
    common = ["train", two_topics, "--epochs", 3, "--overwrite", "-o", "it's loud"]
    plain, quiet, verbose = (
        run_command(home, *common, *more).stderr for more in ([], ["-q"], ["--verbose"])
    )
    command = plain.splitlines()[0]
    assert "epochs=3" in plain.splitlines()
    options = ["--objective", "ns", "--output", "it's loud", "--epochs", "3"]
    assert shlex.split(command) == ["embedx", "train", str(two_topics), *options]
    assert quiet == ""
    settings = next(line for line in verbose.splitlines() if "epochs=3" in line.split())
    assert {"dim=100", "lowercase=no", "seed=1"} <= set(settings.split())
    stream = io.StringIO()
    with Reporter(stream, is_quiet=True) as reporter:
        reporter.note("a fact")
        reporter.warn("a danger")
    assert stream.getvalue() == "warning: a danger\n"


@pytest.mark.parametrize(
    ("arguments", "unit"),
    [
        ("train TEXT", "nats per pair"),
        ("train TEXT --objective softmax --collapsed", "nats per pair"),
        ("classify FEW --objective softmax --optimizer lbfgs --l2 0.1", "nats per row"),
        ("classify FEW --objective ova --loss squared-hinge --weights sparse", "per row"),
    ],
)
def test_the_log_and_the_result_report_the_same_loss(home, two_topics, arguments, unit):
    (home / "few.txt").write_text("0,1 0:1\n1,2 1:1\n3 2:1 3:1\n4,5 3:1\n" * 20)
    words = words_of(arguments, TEXT=two_topics, FEW="few.txt")
    (home / "log").unlink(missing_ok=True)
    options = ["--epochs", 3] if "lbfgs" not in words else []
    common = [*words, *options, "--threads", 1, "--overwrite", "-o", "one"]
    result = json.loads(run_command(home, *common, "--log-json", "log", "--json").stdout)
    events = [json.loads(line) for line in (home / "log").read_text().splitlines()]
    losses = [
        event["loss"]
        for event in events
        if event.get("stage") == "training" and event.get("loss") is not None
    ]
    assert (
        {event["loss_unit"] for event in events if event.get("loss") is not None}
        == {result["loss_unit"]}
        == {unit}
    )
    assert losses[-1] == result["final_loss"]
    if result.get("highest_loss") is not None:
        assert result["final_loss"] <= 1.000001 * result["highest_loss"]
    if "--weights" not in words:
        assert result["final_loss"] < result["initial_loss"]
    if words[0] == "train" and "--collapsed" not in words:
        assert f"loss {result['final_loss']:.4f} {unit}" in run_command(home, *common).stdout


def test_without_a_command_the_help_is_shown(home):
    completed = run_command(home, check=False)
    assert completed.returncode == 2
    assert "Train:" in completed.stdout + completed.stderr
    assert run_command(home, "--version").stdout.startswith("embedx 0.")


def test_an_existing_model_is_kept_unless_overwrite_is_given(trained, two_topics):
    home, folder, _ = trained
    before = (folder / "input.npy").read_bytes()
    completed = run_command(home, "train", two_topics, "--epochs", 1, check=False)
    assert completed.returncode == 2
    assert "--overwrite" in completed.stderr.splitlines()[-1]
    assert (folder / "input.npy").read_bytes() == before


def test_divergence_ends_with_code_3_and_advice(home, two_topics):
    completed = run_command(
        home, "train", two_topics, "--learning-rate", 1e30, "--output", "diverged", check=False
    )
    assert completed.returncode == 3
    assert "leave --learning-rate out" in completed.stderr.splitlines()[-1]
    assert not (home / "diverged").exists()


def test_cache_list_shows_corpora_and_damage_and_cache_clear_deletes_them(home, two_topics):
    options = words_of("--dim 4 --epochs 1 --output cached --cache-dir mine")
    run_command(home, "train", two_topics, *options)
    assert two_topics.name in run_command(home, "cache", "list", "--cache-dir", "mine").stdout
    (about,) = (home / "mine").glob("*/about.json")
    about.write_text("[]")
    key, state, size, why = (
        run_command(home, "cache", "list", "--cache-dir", "mine").stdout.rstrip().split("\t")
    )
    assert (key, state, why) == (
        about.parent.name,
        "damaged",
        "about.json: not what was written there",
    )
    assert re.fullmatch(r"\d+\.\d MB", size)
    (listed,) = json.loads(
        run_command(home, "cache", "list", "--cache-dir", "mine", "--json").stdout
    )
    assert (listed["key"], listed["damage"]) == (key, why)
    assert "freed" in run_command(home, "cache", "clear", "--cache-dir", "mine").stdout
    assert run_command(home, "cache", "list", "--cache-dir", "mine").stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ["train", "loop"],
        ["train", "text.txt", "--output", "loop"],
        ["resume", "loop"],
        ["report", "loop"],
        ["export", "loop", "vectors.txt"],
        ["predict", "loop", "text.txt"],
        ["corpus", "sessions", "loop"],
    ],
    ids=" ".join,
)
def test_symbolic_links_in_a_loop_are_an_error_of_one_line(tmp_path, words):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text.txt").write_text("a b " * 50)
    completed = run_command(tmp_path, *words, check=False)
    assert completed.returncode == 2
    assert "loop" in completed.stderr.splitlines()[-1]
    assert "Traceback" not in completed.stderr
