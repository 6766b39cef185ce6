"""The commands as a user types them."""

import contextlib
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.cli.app import application
from embedx.runtime.progress import Reporter
from embedx.tasks.output import default_output
from embedx.vectors import formats
from embedx.vectors.model import WordVectors
from tests.support.commands import run_command
from tests.support.forked import embedx_run, environment
from tests.support.needs import needs_gensim

COMMAND = [sys.executable, "-m", "embedx"]


@contextlib.contextmanager
def started(home, *arguments):
    """A command in a process that ends with the block, whose streams are pipes."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], cwd=home, text=True, env=environment(home), **pipes
    )
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="module")
def trained(home, two_topics):
    """`embedx train` on the two-topic corpus: (home, model folder, the completed process)."""
    done = run_command(
        home,
        "train",
        two_topics,
        "--dim",
        20,
        "--epochs",
        5,
        "--sample",
        0,
        "--threads",
        2,
        "--json",
    )
    return home, home / "two-topics.ns.embedx", done


def test_train_prints_one_json_object_and_progress_goes_elsewhere(trained):
    _, folder, done = trained
    printed = json.loads(done.stdout)
    assert printed["model"] == str(folder)
    assert printed["objective"] == "ns"
    assert printed["settings"]["dim"] == 20
    assert printed["words_trained"] == 5 * printed["corpus_tokens"]
    assert 0 < printed["final_loss"] < 3
    assert "dim=20" in done.stderr
    assert "vocabulary: 16 words" in done.stderr


def test_words_of_one_topic_are_nearest_to_each_other(trained):
    home, folder, _ = trained
    lines = run_command(home, "nn", folder, "cat", "truck", "--top-k", 3).stdout.splitlines()
    neighbours = [line.split("\t")[:2] for line in lines]
    assert {n for word, n in neighbours if word == "cat"} <= {"dog", "purr", "fur", "paw", "tail"}
    assert {n for word, n in neighbours if word == "truck"} <= {
        "car",
        "engine",
        "wheel",
        "road",
        "fuel",
    }
    assert (
        run_command(home, "analogy", folder, "cat", "dog", "car", "--top-k", 2).stdout.count("\n")
        == 2
    )
    as_typed = json.loads(run_command(home, "nn", folder, "cat", "--top-k", 1, "--json").stdout)
    assert as_typed["cat"][0]["word"] == neighbours[0][1]


def test_a_model_is_described_and_asked_by_standard_input(trained):
    home, folder, _ = trained
    about = json.loads(run_command(home, "info", folder, "--json").stdout)
    assert (about["task"], about["objective"], about["words"]) == ("skipgram", "ns", 16)
    assert about["bytes"] == sum(path.stat().st_size for path in folder.iterdir())
    assert about["settings"]["dim"] == 20
    assert "lowercase" not in about["settings"]
    assert f"final loss\t{about['final_loss']:g}\n" in run_command(home, "info", folder).stdout

    model, lines = embedx.load(folder), "cat\n\ncat dog xyzzy\n"
    done = run_command(home, "vectors", folder, input=lines)
    assert done.stderr == "warning: lines without a known word: 1\n"
    names, rows = zip(
        *((row[0], np.array(row[1:], float)) for row in map(str.split, done.stdout.splitlines())),
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

    done = run_command(
        home,
        "nn",
        folder,
        "-",
        "-k",
        3,
        "--restrict",
        8,
        "--exclude",
        model.words[0],
        input="cat xyzzy\ndog\n",
    )
    assert done.stderr.startswith("embedx: xyzzy: not among the 16 words")
    answers = [line.split("\t") for line in done.stdout.splitlines()]
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


def test_a_second_process_compiles_nothing_and_reads_nothing(home, two_topics):
    first = embedx_run(home, "train", two_topics, "--dim", 12, "--epochs", 1, "-o", "first")
    assert not any(word in first.stderr for word in ("token cache", "memory: ", "disk: "))
    probe = (
        "import sys; from embedx.cli.app import main; sys.argv = ['embedx', *sys.argv[1:]]\ntry:"
        " main()\nexcept SystemExit: pass\nfrom embedx.engine.skipgram import train_chunk; from"
        " embedx.objectives.ns import coefficients\nprint(sum(sum(k.stats.cache_misses.values())"
        " for k in (train_chunk, coefficients)))\nprint('gensim' in sys.modules)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            probe,
            "train",
            str(two_topics),
            "--dim",
            "12",
            "--epochs",
            "1",
            "-v",
            "--output",
            "probed",
        ],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(home),
    )
    assert done.stdout.splitlines()[-2:] == ["0", "False"], done.stderr
    assert "from the token cache" in done.stderr
    assert "compiling" not in done.stderr


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (
            (
                "sys.argv = ['embedx', '--help']\nfrom embedx.cli.app import main\ntry:"
                " main()\nexcept SystemExit: pass"
            ),
            "numba numpy scipy gensim smart_open",
        ),
        ("from embedx.vectors import model, formats, export", "gensim numba"),
        (
            "from embedx.text.sources import find_sources; find_sources(['wikipedia-sample', 'http://x/y'])",
            "numba gensim smart_open numpy",
        ),
    ],
    ids=["help", "queries and exports", "names of sources"],
)
def test_what_is_light_imports_nothing_heavy(code, heavy):
    assert imported_by(code, heavy) == []


def imported_by(code, modules):
    """Those of the modules that a process has imported after running some Python."""
    probe = f"import sys\n{code}\nprint(*[m for m in {modules.split()} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.splitlines()[-1].split()


def test_training_on_a_local_file_imports_no_client_of_networks(home, two_topics):
    words = ["embedx", "train", two_topics, "--output", home / "light", "--epochs", 1, "--quiet"]
    code = (
        f"sys.argv = {[str(word) for word in words]}\n"
        "from embedx.cli.app import main\ntry: main()\nexcept SystemExit as ended: print()"
    )
    heavy = "smart_open requests urllib3 http.client gensim sklearn pandas ray embedx.labeled.read"
    assert imported_by(code, heavy) == []
    assert len(embedx.load(home / "light")) == 16


@pytest.mark.parametrize("words", [["info", "model"], ["corpus", "list"]])
def test_a_command_is_made_alone(words):
    (command,) = _listed(application(words))
    assert command == " ".join(words[: command.count(" ") + 1])


def test_a_shell_is_offered_all_commands_while_a_name_is_typed(monkeypatch):
    monkeypatch.setenv("_EMBEDX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "embedx test")
    assert {"test", "test-label", "corpus list"} < set(_listed(application([])))


def _listed(app):
    """The names of the commands of an application."""
    names = [command.name for command in app.registered_commands]
    for group in app.registered_groups:
        names += [
            f"{group.name} {registered.name}"
            for registered in group.typer_instance.registered_commands
        ]
    return names


@pytest.mark.parametrize("corpus", ["words.txt", "-"])
def test_training_on_nothing_is_a_mistake_that_changes_nothing(home, corpus):
    (home / "words.txt").write_text("a\nb\n" * 9)
    if not (kept := home / "kept.embedx").exists():
        WordVectors(["a"], {"input": np.ones((1, 2), np.float32)}, counts=np.array([1])).save(kept)
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    done = run_command(
        home, "train", corpus, "--output", kept, "--overwrite", check=False, input="a\nb\n" * 9
    )
    assert done.returncode == 2
    assert not done.stdout
    assert re.match(
        f"embedx: {corpus}: no sentence has two words of the vocabulary",
        done.stderr.splitlines()[-1],
    )
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert not list(home.glob("kept.embedx.*"))


@needs_gensim
def test_export_goes_from_format_to_format(trained):
    home, folder, _ = trained
    words = ["--top", "15", "--vectors", "sum"]
    for step in ([folder, "a.npz", *words], ["a.npz", "a.kv"]):
        assert run_command(home, "export", *step).stdout.splitlines() == [step[1]]
    done = run_command(home, "export", "a.kv", "a.vec.gz", check=False)
    assert done.returncode == 2
    assert "a.kv: this is a pickle" in done.stderr
    run_command(home, "export", "a.kv", "a.vec.gz", "--trust-pickle")
    whole, exported = embedx.load(folder), embedx.load(home / "a.vec.gz")
    assert exported.words == whole.words[:15]
    np.testing.assert_array_equal(exported.vectors, (whole.vectors + whole.output_vectors)[:15])
    done = run_command(home, "export", folder, "a.npz", check=False)
    assert (
        done.stderr.splitlines()[-1]
        == "embedx: a.npz: exists already; add --overwrite, or choose another name"
    )
    printed = " ".join(run_command(home, "export", "--help").stdout.split())
    assert all(f"`{name}`" in printed for name in formats.FORMATS)


def test_training_on_baskets_from_standard_input(home):
    baskets = "".join(json.dumps({"items": [f"Item {n % 4}", n % 3]}) + "\n" for n in range(60))
    options = [
        "--json-field",
        "items",
        "--tokenizer",
        "none",
        "--window",
        "all",
        "--sample",
        0,
        "--dim",
        4,
        "--epochs",
        1,
    ]
    (line,) = run_command(home, "train", "-", *options, input=baskets).stdout.splitlines()
    assert line.startswith(f"{home / 'stdin.ns.embedx'}\t7 words, loss ")
    model = embedx.load(home / "stdin.ns.embedx")
    assert model.settings["window"] == 1000
    assert sorted(model.words) == ["0", "1", "2", "Item 0", "Item 1", "Item 2", "Item 3"]


FILE_NAME = (
    "the name of a file, but a model is a folder; train with --output mistake.embedx, then write"
    " the file with: embedx "
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train", "CORPORA"),
        ("nn x word --top-k 0", "Invalid value for '--top-k' / '-k': "),
        ("train nowhere.txt", "nowhere.txt: no such file or directory"),
        ("train TEXT --dim abc", "--dim abc: must be a whole number"),
        ("train s3://bucket/x", "s3://bucket/x: reading s3:// needs more packages; pip install"),
        ("train TEXT --min-count 1000000", "--min-count 1000000: no word occurs so often"),
        (
            "train TEXT --time-budget soon",
            "--time-budget soon: not a time; write 90s, 10m, 2h or 1h30m",
        ),
        (
            "train TEXT --time-budget 5m --epochs 3",
            "--epochs and --time-budget both say when to stop",
        ),
        ("train TEXT --log-json no/such/folder/log", "--log-json no/such/folder/log: "),
        ("train TEXT --dim 2000000000", "numbers need"),
        (
            "train TEXT --json-field text",
            "--json-field text: no corpus has the suffix of JSON Lines; rename it, or give it on",
        ),
        (
            "train TEXT --output mistake.bin",
            f"--output mistake.bin: {FILE_NAME}export mistake.embedx mistake.bin",
        ),
        (
            "train mnist",
            "mnist: labelled data, not text; train a classifier on it with `embedx classify mnist`",
        ),
        (
            "classify digits --validation 1.5",
            "--validation 1.5: a fraction of the rows must be between 0 and 1",
        ),
        (
            "classify bibtexx",
            "bibtexx: cannot be opened (No such file or directory); did you mean bibtex?",
        ),
        (
            "classify text8",
            "text8: text without labels; train word vectors on it with `embedx train text8`",
        ),
        (
            "classify FEW --label-names two",
            'two:3: the name "zero" is also in line 1; use different names',
        ),
    ],
)
def test_a_mistake_gets_one_line_exit_code_2_and_leaves_nothing_behind(
    home, two_topics, arguments, message
):
    (home / "few.txt").write_text("2 1:1\n0 2:1\n")
    (home / "two").write_text("zero\none\nzero\n")
    words = [{"TEXT": two_topics, "FEW": "few.txt"}.get(word, word) for word in arguments.split()]
    output = (
        ["--output", "mistake"]
        if len(words) > 1 and words[0] != "nn" and "--output" not in words
        else []
    )
    done = run_command(home, *words, *output, check=False)
    assert done.returncode == 2, done.stderr
    *notes, line = done.stderr.splitlines()
    assert line.startswith("embedx: ")
    assert message in line
    assert not any("Traceback" in note or " examples, " in note for note in notes)
    assert done.stdout == ""
    assert not list(home.glob("mistake*"))


def test_a_recipe_of_labelled_data_is_classified_by_its_name(home):
    (home / "Bibtex").mkdir()
    (home / "Bibtex" / "Bibtex_data.txt").write_text("4 2 2\n0 0:1\n1 1:1\n0 0:2\n1 1:2\n")
    (home / "Bibtex" / "bibtex_trSplit.txt").write_text("1\n2\n3\n")
    (home / "Bibtex" / "bibtex_tstSplit.txt").write_text("4\n")
    train, test = (f"bibtex@Bibtex/bibtex_{part}Split.txt" for part in ("tr", "tst"))
    done = run_command(home, "classify", train, "--epochs", 1, "--test", test, "-q")
    assert done.stdout.startswith(f"{home}/bibtex_trSplit.")
    assert done.stdout.count("\n") == 1


def test_quiet_shows_warnings_alone_and_verbose_all_settings(home, two_topics):
    common = ["train", two_topics, "--epochs", 3, "--overwrite", "-o", "it's loud"]
    plain, quiet, verbose = (
        run_command(home, *common, *more).stderr for more in ([], ["-q"], ["--verbose"])
    )
    command = plain.splitlines()[0]
    assert "epochs=3" in plain.splitlines()
    asked = [
        "embedx",
        "train",
        str(two_topics),
        "--objective",
        "ns",
        "--output",
        "it's loud",
        "--epochs",
        "3",
    ]
    assert shlex.split(command) == asked
    assert quiet == ""
    settings = next(line for line in verbose.splitlines() if "epochs=3" in line.split())
    assert {"dim=100", "lowercase=no", "seed=1"} <= set(settings.split())
    stream = io.StringIO()
    with Reporter(stream, is_quiet=True) as reporter:
        reporter.note("a fact")
        reporter.warn("a danger")
    assert stream.getvalue() == "warning: a danger\n"


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (["train", "TEXT"], "nats per pair"),
        (["train", "TEXT", "--objective", "softmax", "--collapsed"], "nats per pair"),
        (
            ["classify", "FEW", "--objective", "softmax", "--optimizer", "lbfgs", "--l2", 0.1],
            "nats per row",
        ),
        (
            [
                "classify",
                "FEW",
                "--objective",
                "ova",
                "--loss",
                "squared-hinge",
                "--weights",
                "sparse",
            ],
            "per row",
        ),
    ],
)
def test_the_loss_is_the_same_from_the_log_to_the_result(home, two_topics, words, unit):
    (home / "few.txt").write_text("0,1 0:1\n1,2 1:1\n3 2:1 3:1\n4,5 3:1\n" * 20)
    places = {"TEXT": two_topics, "FEW": "few.txt"}
    words = [places.get(word, word) for word in words]
    (home / "log").unlink(missing_ok=True)
    options = ["--epochs", 3] if "lbfgs" not in words else []
    common = [*words, *options, "--threads", 1, "--overwrite", "-o", "one"]
    printed = json.loads(run_command(home, *common, "--log-json", "log", "--json").stdout)
    events = [json.loads(line) for line in (home / "log").read_text().splitlines()]
    losses = [
        event["loss"]
        for event in events
        if event.get("stage") == "training" and event.get("loss") is not None
    ]
    assert (
        {event["loss_unit"] for event in events if event.get("loss") is not None}
        == {printed["loss_unit"]}
        == {unit}
    )
    if {"lbfgs", "--weights"} & set(words):
        assert losses[-1] == pytest.approx(printed["final_loss"], rel=1e-6)
    elif (
        "--collapsed" not in words
    ):  # the log has the mean of all, the result that of the last twentieth
        assert printed["final_loss"] <= losses[-1] <= printed["highest_loss"]
    else:
        assert losses[-1] == printed["history"][-2]["loss"]
    if printed.get("highest_loss") is not None:
        assert printed["final_loss"] <= 1.000001 * printed["highest_loss"]
    if "--weights" not in words:
        assert printed["final_loss"] < printed["initial_loss"]
    if words[0] == "train" and "--collapsed" not in words:
        assert f"loss {printed['final_loss']:.4f} {unit}" in run_command(home, *common).stdout


def test_without_a_command_the_help_is_shown(home):
    done = run_command(home, check=False)
    assert done.returncode == 2
    assert "Train:" in done.stdout + done.stderr
    assert run_command(home, "--version").stdout.startswith("embedx 0.")


def test_interrupted_before_training_leaves_nothing(home):
    with started(home, "train", "-", "--output", "never") as process:
        process.stderr.readline()  # the command: it is about to read
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 143
    assert printed.splitlines()[-1] == "embedx: interrupted"
    assert not (home / "never").exists()


def test_an_existing_model_is_kept_unless_overwrite_is_given(trained, two_topics):
    home, folder, _ = trained
    before = (folder / "input.npy").read_bytes()
    done = run_command(home, "train", two_topics, "--epochs", 1, check=False)
    assert done.returncode == 2
    assert "--overwrite" in done.stderr.splitlines()[-1]
    assert (folder / "input.npy").read_bytes() == before


def test_divergence_ends_with_code_3_and_advice(home, two_topics):
    done = run_command(
        home, "train", two_topics, "--learning-rate", 1e30, "--output", "diverged", check=False
    )
    assert done.returncode == 3
    assert "leave --learning-rate out, or try a smaller one" in done.stderr.splitlines()[-1]
    assert not (home / "diverged").exists()


def test_an_interrupted_run_leaves_a_model_however_often_it_is_interrupted(home, two_topics):
    options = [
        "--epochs",
        "1000000",
        "--dim",
        "8",
        "--output",
        "interrupted",
        "--checkpoint-every",
        "0.01s",
    ]
    with started(home, "train", two_topics, *options) as process:
        while process.poll() is None and not list(home.glob("interrupted.checkpoint/state-*")):
            time.sleep(0.01)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.002)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.startswith(str(home / "interrupted"))
    model = embedx.load(home / "interrupted")
    assert model.facts["interrupted"]
    assert np.isfinite(model.vectors).all()


def test_cache_list_and_clear(home, two_topics):
    run_command(
        home,
        "train",
        two_topics,
        "--dim",
        4,
        "--epochs",
        1,
        "--output",
        "cached",
        "--cache-dir",
        "mine",
    )
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


@pytest.mark.parametrize("layout", ["{0} 1:1\n{1} 2:1\n", "__label__{0} a\n__label__{1} b\n"])
def test_labels_are_called_by_their_names(home, layout):
    (home / "few.txt").write_text(layout.format(2, 0) * 20)
    (home / "names.txt").write_text("zero\none\ntwo\n")
    options = [
        "--label-names",
        "names.txt",
        "--epochs",
        3,
        "--test",
        "few.txt",
        "--output",
        "named",
        "--overwrite",
        "--json",
    ]
    done = run_command(home, "classify", "few.txt", *options)
    assert json.loads(done.stdout)["test"]["accuracy"] == 1
    (home / "few.txt").write_text(layout.format(2, 0) * 20 + "\n")  # a line more, for `paste`
    best = [
        line.split("\t")[0]
        for line in run_command(home, "predict", "named", "few.txt").stdout.splitlines()
    ]
    assert (best[:40], len(best)) == (["two", "zero"] * 20, 41)
    assert run_command(home, "predict", "named", "few.txt", "-o", "best.tsv").stdout == ""
    assert [line.split("\t")[0] for line in (home / "best.tsv").read_text().splitlines()] == best
    assert (
        "--overwrite"
        in run_command(home, "predict", "named", "few.txt", "-o", "best.tsv", check=False).stderr
    )
    (home / "best.tsv").unlink()
    assert "accuracy\t1.0000" in run_command(home, "eval", "named", "--test", "few.txt").stdout


def test_two_classifiers_are_scored_on_the_same_test_rows(home):
    good = "0 1:1\n1 2:1\n" * 20
    (home / "good.txt").write_text(good)
    (home / "swapped.txt").write_text("1 1:1\n0 2:1\n" * 20)
    for name in ("good", "swapped"):
        run_command(home, "classify", f"{name}.txt", "-o", f"{name}.m")
    scored = ["eval", "good.m", "swapped.m", "--test", "good.txt"]
    lines = [line.split("\t") for line in run_command(home, *scored).stdout.splitlines()]
    assert lines[0] == ["metric", "good.m", "swapped.m", "difference", "from", "to"]
    row = {name: values for name, *values in lines}
    assert row["accuracy"] == ["1.0000", "0.0000", "1.0000", "1.0000", "1.0000"]
    record = json.loads(run_command(home, *scored, "--json").stdout)["test"]
    assert [metrics["accuracy"] for metrics in record["metrics"]] == [1.0, 0.0]
    assert record["difference"]["accuracy"] == 1.0
    refusal = run_command(home, *scored, "--per-label", "l.csv", check=False)
    assert refusal.returncode == 2
    assert "--per-label" in refusal.stderr


def test_rows_without_labels_are_reported_and_count_in_no_measure(home):
    (home / "half.txt").write_text("0 1:1\n1 2:1\n 1:1\n" * 20)
    options = ["--epochs", 3, "--test", "half.txt", "--output", "half", "--overwrite"]
    done = run_command(home, "classify", "half.txt", *options)
    assert "20 of 60 training rows have no label and are not trained on" in done.stderr
    assert "20 of 60 test rows have no label and are not scored" in done.stderr
    assert "accuracy 1.0000" in done.stdout
    assert "p@1 1.0000" in done.stdout
    assert done.stdout.endswith(", 40 labelled test rows\n")


@pytest.mark.parametrize(("objective", "is_told"), [("margin", True), ("softmax", False)])
def test_probabilities_that_are_none_are_distinguished(home, objective, is_told):
    (home / "few.txt").write_text("1 0:1\n0 1:1\n1 0:2\n0 1:2\n" * 5)
    options = [
        "--objective",
        objective,
        "--epochs",
        3,
        "--validation",
        "0.2",
        "--output",
        f"few.{objective}.embedx",
    ]
    trained = run_command(home, "classify", "few.txt", *options)
    predicted = run_command(home, "predict", f"few.{objective}.embedx", "few.txt")
    tested = run_command(home, "eval", f"few.{objective}.embedx", "--test", "few.txt")
    for done in (trained, predicted, tested):
        note = "margin has no probabilities of its own; those shown are a softmax of its scores"
        assert (note in done.stderr) == is_told, done.stderr
        assert "softmax of its scores" not in done.stdout


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
    done = run_command(tmp_path, *words, check=False)
    assert done.returncode == 2
    assert "loop" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_byte_order_mark_belongs_to_no_query(tmp_path):
    (tmp_path / "vectors.txt").write_text("a 1 2\nb 2 1\n")
    done = run_command(tmp_path, "nn", "vectors.txt", "-", input="\ufeffa\n")
    assert done.stdout == "a\tb\t0.8000\n"
    done = run_command(tmp_path, "vectors", "vectors.txt", input="\ufeffa\n")
    assert done.stdout == "a 1 2\n"


def answered(home, *words, lines):
    """What a command answers to each line of its standard input before it gets the next."""
    with started(home, *words) as process:
        for line in lines:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            yield process.stdout.readline().rstrip("\n")
        process.communicate()  # closes the streams
        assert process.returncode == 0


def test_each_line_of_standard_input_is_answered_as_it_comes(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\nb 2 1\nc 3 1\nd 1 1\n")
    answers = [*answered(tmp_path, "nn", "v.txt", "-", "--top-k", "1", lines="bc")]
    assert answers == ["b\tc\t0.9899", "c\tb\t0.9899"]
    assert [*answered(tmp_path, "vectors", "v.txt", lines="ab")] == ["a 1 2", "b 2 1"]
    questions = ["a b c", "a c b"]
    answers = [*answered(tmp_path, "analogy", "v.txt", "-", "--top-k", "1", lines=questions)]
    assert [line.split()[0] for line in answers] == ["d", "d"]


def test_fasttexts_commands_about_vectors_answer_each_line_as_it_comes(tmp_path):
    (tmp_path / "v.vec").write_text("4 2\na 1 2\nb 2 1\nc 3 1\nd 1 1\n")
    words = [*answered(tmp_path, "print-word-vectors", "v.vec", lines=["a", "unseen"])]
    assert words == ["a 1 2", "unseen 0 0"]
    sentences = [*answered(tmp_path, "print-sentence-vectors", "v.vec", lines=["a b", "unseen"])]
    assert sentences == ["0.67082 0.67082", "0 0"]
    answers = [*answered(tmp_path, "analogies", "v.vec", "1", lines=["b a c", "c a b"])]
    assert [line.removeprefix("Query triplet (A - B + C)? ")[0] for line in answers] == ["d", "d"]


def test_fasttexts_nn_asks_for_words(tmp_path):
    (tmp_path / "text.txt").write_text("king queen\ncat dog\n" * 30)
    options = ["-dim", "4", "-minCount", "1", "-bucket", "100", "-epoch", "1", "-t", "0"]
    embedx_run(tmp_path, "skipgram", *["-input", "text.txt", "-output", "ft", *options])
    asked = ["king", "dog"]
    answers = [*answered(tmp_path, "nn", "ft.bin", "1", lines=asked)]
    from_stdin = [*answered(tmp_path, "nn", "ft", "-", "--top-k", "1", lines=asked)]
    assert [line.removeprefix("Query word? ").split()[0] for line in answers] == [
        line.split()[1] for line in from_stdin
    ]


def test_fasttexts_commands_answer_each_line_as_it_comes(tmp_path):
    rows = ["__label__pos good nice film", "__label__neg bad ugly film"] * 20
    (tmp_path / "reviews.txt").write_text("\n".join(rows) + "\n")
    run_command(tmp_path, *["supervised", "-input", "reviews.txt", "-output", "ft", "-dim", "4"])
    texts = ["good", "bad"]
    assert [*answered(tmp_path, *["predict", "ft.bin", "-"], lines=texts)] == [
        "__label__pos",
        "__label__neg",
    ]
    assert [*answered(tmp_path, *["predict", "ft", "-", "2"], lines=texts)] == [
        "__label__pos __label__neg",
        "__label__neg __label__pos",
    ]
    answers = [*answered(tmp_path, *["predict-prob", "ft.bin", "-"], lines=texts)]
    assert [line.split()[0] for line in answers] == ["__label__pos", "__label__neg"]
    done = run_command(tmp_path, *["test-label", "ft.bin", "reviews.txt"])
    measures = "F1-Score : 1.000000  Precision : 1.000000  Recall : 1.000000   __label__"
    assert done.stdout.splitlines() == [
        f"{measures}pos",
        f"{measures}neg",
        "N\t40",
        "P@1\t1",
        "R@1\t1",
    ]


def test_rows_of_standard_input_are_of_the_formats_of_files(tmp_path):
    rows = "".join(f"A {i % 3 + 1}:1 4:1\nB {i % 3 + 5}:1 8:1\n" for i in range(30))
    (tmp_path / "rows.svm").write_text(rows)
    table = "id,text,topic\n" + "a,red wine,A\nb,blue sea,B\n" * 30
    (tmp_path / "table.csv").write_text(table)
    run_command(tmp_path, *["classify", "rows.svm", "--output", "sparse", "--epochs", "3"])
    columns = ["--label-column", "topic", "--text-column", "text", "--id-column", "id"]
    run_command(
        tmp_path, *["classify", "table.csv", "--output", "table", "--epochs", "3"], *columns
    )

    sparse = ["predict", "sparse", "-", "--top-k", "1"]
    answers = [*answered(tmp_path, *sparse, lines=["1:1 4:1", "A 5:1 8:1 # a comment"])]
    assert [answer[0] for answer in answers] == ["A", "B"]
    with_header = run_command(tmp_path, *sparse, input="2 9 2\n0 5:1 8:1\n1 1:1 4:1\n\n").stdout
    assert len(with_header.splitlines()) == 2

    records = ['{"id": "x", "text": "red wine"}', '{"id": "y", "text": "blue sea"}']
    answers = [*answered(tmp_path, "predict", "table", "-", "--top-k", "1", lines=records)]
    assert [answer.split("\t")[:2] for answer in answers] == [["x", "A"], ["y", "B"]]
