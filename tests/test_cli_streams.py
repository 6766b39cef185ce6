"""Commands that read standard input: queries are answered line by line."""

import json

import embedx
from tests.support.commands import run_command, words_of
from tests.support.forked import embedx_run, piped


def test_training_on_baskets_from_standard_input(home):
    baskets = "".join(json.dumps({"items": [f"Item {n % 4}", n % 3]}) + "\n" for n in range(60))
    options = words_of(
        "--json-field items --tokenizer none --window all --sample 0 --dim 4 --epochs 1"
    )
    (line,) = run_command(home, "train", "-", *options, input=baskets).stdout.splitlines()
    assert line.startswith(f"{home / 'stdin.ns.embedx'}\t7 words, loss ")
    model = embedx.load(home / "stdin.ns.embedx")
    assert model.settings["window"] == 1000
    assert sorted(model.words) == ["0", "1", "2", "Item 0", "Item 1", "Item 2", "Item 3"]


def test_a_byte_order_mark_belongs_to_no_query(tmp_path):
    (tmp_path / "vectors.txt").write_text("a 1 2\nb 2 1\n")
    completed = run_command(tmp_path, "nn", "vectors.txt", "-", input="\ufeffa\n")
    assert completed.stdout == "a\tb\t0.8000\n"
    completed = run_command(tmp_path, "vectors", "vectors.txt", input="\ufeffa\n")
    assert completed.stdout == "a 1 2\n"


def answered(home, *words, lines):
    """What a command answers to each line of its standard input before it gets the next."""
    with piped(home, *words) as (stdin, stdout):
        for line in lines:
            print(line, file=stdin, flush=True)
            yield stdout.readline().rstrip("\n")


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
    queries = ["king", "dog"]
    answers = [*answered(tmp_path, "nn", "ft.bin", "1", lines=queries)]
    from_stdin = [*answered(tmp_path, "nn", "ft", "-", "--top-k", "1", lines=queries)]
    assert [line.removeprefix("Query word? ").split()[0] for line in answers] == [
        line.split()[1] for line in from_stdin
    ]
    for options in (["--json"], ["--exclude", "cat"], ["--min-count", "2"], ["--intervals"]):
        ended = run_command(tmp_path, "nn", "ft.bin", *options, input="king\n", check=False)
        assert ended.returncode == 2
        assert f"{options[0]} " in ended.stderr


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
    completed = run_command(tmp_path, *["test-label", "ft.bin", "reviews.txt"])
    measures = "F1-Score : 1.000000  Precision : 1.000000  Recall : 1.000000   __label__"
    assert completed.stdout.splitlines() == [
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
