"""How fast are corpora read, tokenised and counted, by one thread and by several, and dumps beside gensim's WikiCorpus?

    python -m eval.speed_reading FILE ... [--threads 1 2] [--repetitions 3]

Each measurement is a process of its own, with the compiled kernels at hand; they take turns, and the table has medians. The
tokens of gensim are its own: it leaves out short articles, and words of one letter.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from eval.under_test import Silent, TextSettings, encode, recipe_defaults


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m eval.speed_reading", description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--measure", choices=("embedx", "gensim"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        measured = by_embedx if options.measure == "embedx" else by_gensim
        print(json.dumps(measured(options.files[0], options.threads[0])))
        return
    found = defaultdict(list)
    for _ in range(options.repetitions):
        for file in options.files:
            for threads in options.threads:
                found[file, "embedx", threads].append(in_process(file, "embedx", threads))
            if recipe_defaults([file]):  # of a dump
                found[file, "gensim", threads].append(in_process(file, "gensim", threads))
    print("| file | tool | threads | seconds | tokens/s |\n|---|---|---|---|---|")
    for (file, tool, threads), results in found.items():
        seconds, n_tokens = statistics.median(seconds for seconds, _ in results), results[0][1]
        print(f"| {Path(file).name} | {tool} | {threads} | {seconds:.2f} | {n_tokens / seconds:,.0f} |")


def in_process(file: str, tool: str, threads: int) -> tuple[float, int]:
    """Seconds and tokens."""
    command = [sys.executable, "-m", "eval.speed_reading", file, "--measure", tool, "--threads", str(threads)]
    seconds, n_tokens = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return seconds, n_tokens


def by_embedx(file: str, threads: int) -> tuple[float, int]:
    """Nothing is in the token cache; the kernels are compiled on a line of text before."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "line.txt").write_text("a line of text")
        for name in (f"{folder}/line.txt", file):
            settings = TextSettings.from_options(recipe_defaults([name]))
            start = time.perf_counter()
            with encode(name, settings, Silent(), Path(folder) / "cache", threads=threads) as corpus:
                seconds, n_tokens = time.perf_counter() - start, corpus.n_tokens
    return seconds, n_tokens


def by_gensim(file: str, threads: int) -> tuple[float, int]:
    """WikiCorpus, with as many processes."""
    from gensim.corpora.wikicorpus import WikiCorpus

    start = time.perf_counter()
    n_tokens = sum(len(text) for text in WikiCorpus(file, processes=threads, dictionary={}).get_texts())
    return time.perf_counter() - start, n_tokens


if __name__ == "__main__":
    main()
