"""Does embedx keep its pace at full scale? A billion words of twenty million types; corpora read on
one core and on two; what each stage of a command would take on many.

Sections: `billion`, one epoch of `ns` on a generated text of a billion words, stage by stage,
beside one of twenty million words by the same law; `reading`, the forms that corpora come in,
Wikipedia's dumps beside gensim's WikiCorpus with as many processes as cores; `stages`, see
`eval.scale_stages`. Every measurement is a process of its own, and they take turns.
"""

import bz2
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from embedx.runtime.progress import Silent
from embedx.text.encode import encode
from embedx.text.settings import TextSettings
from embedx.text.sources import recipe_defaults
from eval import corpus, datasets, scale_stages
from eval.experiment import Experiment, Run, in_process
from eval.page import exceeds, number, table, target, thousands
from eval.records import Job, Records, Result
from eval.speed_process import bytes_in, run_embedx, watched_memory

TRAINED: dict[str, Job] = {
    "small": {"words": 20_000_000, "types": 480_000},
    "large": {"words": 1_000_000_000, "types": 24_000_000},
}
SETTINGS: Job = {
    "objective": "ns",
    "dim": 100,
    "window": 5,
    "negatives": 5,
    "sample": 1e-3,
    "min_count": 5,
    "epochs": 1,
    "threads": 2,
    "seed": 1,
    "options": {},
}
CORES = (1, 2)  # that a process may use; it reads with as many threads
FORMS = ("plain", "gz", "bz2", "dump")
DUMP = "wikipedia-sample"
DUMP_COPIES = 12  # of its pages, for a longer dump
GIBIBYTE = 2**30
# Generated text: words by Zipf's law, from which nothing can be learned.
EXPONENT = 1.1  # of Zipf's law
SENTENCE = 25  # words in a line
AT_ONCE = 1 << 20  # words made at a time
LONGEST = 7  # letters of a word, which are enough for 8 billion types
MAX_MEMORY = 16 * GIBIBYTE
MIN_PACE = 0.8
MIN_GAIN = 1.6
MIN_LEAD = 5.0
PACE_ERROR = 0.025  # assumed of the ratio of two paces that were measured once each


def jobs(run: Run) -> Iterator[Job]:
    sections = run.chosen("section")
    if "billion" in sections:
        for name in run.chosen("corpus"):
            size = TRAINED[name] if not run.quick else {"words": 200_000, "types": 20_000}
            yield {"kind": "train", "corpus": name, **size, **SETTINGS}
    if "reading" in sections:
        for repetition in range(int(run.settings.repetitions)):
            for form in run.chosen("form"):
                for cores in CORES:
                    yield {
                        "kind": "read",
                        "form": form,
                        "tool": "embedx",
                        "cores": cores,
                        "repetition": repetition,
                    }
                if form == "dump" and run.need("gensim", "gensim"):
                    yield {
                        "kind": "read",
                        "form": form,
                        "tool": "gensim",
                        "cores": max(CORES),
                        "repetition": repetition,
                    }
    if "stages" in sections:
        yield from scale_stages.jobs(run)


def prepare(run: Run) -> dict[str, Any]:
    """The corpus in its forms, where reading is measured, and what commands are measured on."""
    sections = run.chosen("section")
    about = _forms(run) if "reading" in sections else {"data": {}}
    return about | scale_stages.prepare(run) if "stages" in sections else about


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections."""
    sections = run.chosen("section")
    names = scale_stages.needs(run) if "stages" in sections else []
    if "reading" in sections and "dump" in run.chosen("form"):
        names.append(DUMP)
    return names


def _forms(run: Run) -> dict[str, Any]:
    """Write the corpus in its forms; what is to be known of it."""
    about = corpus.unpacked(run, pools_pairs=False)
    text = Path(run.files["text"])
    forms = run.chosen("form")
    if "gz" in forms:
        corpus.compress(text, run.folder / "text.gz")
    if "bz2" in forms:  # streams of 900 kB, as pbzip2 writes
        with text.open("rb") as source, (run.folder / "text.bz2").open("wb") as out:
            out.writelines(bz2.compress(part) for part in iter(lambda: source.read(900_000), b""))
    if "dump" in forms:
        about["dump bytes"] = write_dump(run.folder / "dump.xml.bz2", dump_of(run))
    run.files |= {form: str(run.folder / f"text.{form}") for form in ("gz", "bz2")}
    run.files |= {"plain": run.files["text"], "dump": str(run.folder / "dump.xml.bz2")}
    return {"corpus": about}


def dump_of(run: Run) -> bytes:
    """The dump of Wikipedia; in a trial run where it is not here one of generated pages."""
    if not run.quick or datasets.is_here(DUMP, run.data_folder):
        return bz2.decompress(datasets.text(run.data_folder, DUMP).read_bytes())
    pages = "".join(
        f"<page><title>{n}</title><ns>0</ns><text>{line}</text></page>"
        for n, line in enumerate(corpus.generated_text().splitlines())
    )
    return f"<mediawiki>{pages}</mediawiki>".encode()


def write_dump(file: Path, xml: bytes) -> int:
    """One dump with the pages of another several times over, in streams of their own as in a
    multistream dump; its bytes.
    """
    first = xml.index(b"<page>")
    last = xml.rindex(b"</page>") + len(b"</page>")
    packed = bz2.compress(xml[first:last])
    with file.open("wb") as out:
        out.write(bz2.compress(xml[:first]))
        out.writelines([packed] * DUMP_COPIES)
        out.write(bz2.compress(xml[last:]))
    return len(xml) + (DUMP_COPIES - 1) * (last - first)


def measure(run: Run, job: Job) -> Result:
    if job["kind"] in scale_stages.KINDS:
        return scale_stages.measure(run, job)
    if job["kind"] == "read":
        return in_process("eval.scale", "read", job, run.files)
    text = run.folder / "generated"
    write_text(text, job["words"], job["types"])
    try:
        return in_process(
            "eval.scale", "train", job, {"generated": str(text), "folder": str(run.folder)}
        )
    finally:
        text.unlink()


def write_text(file: Path, n_words: int, n_types: int, seed: int = 1) -> None:
    """A file of so many words, of at most `n_types` different ones; a word's rank is drawn by a
    continuous power law.
    """
    rng = np.random.default_rng([seed, n_words, n_types])
    out = np.empty(AT_ONCE * (LONGEST + 1), np.uint8)
    with file.open("wb") as target:
        for start in range(0, n_words, AT_ONCE):
            n = min(AT_ONCE, n_words - start)
            target.write(memoryview(out[: spell(rng.random(n), n_types, start, out)]))


@njit
def spell(uniform: Any, n_types: int, start: int, out: Any) -> int:
    """Write the words of these random numbers, which are their ranks in letters; return how many
    bytes they are.
    """
    power = 1 - EXPONENT
    end = 0
    low = float(n_types + 1) ** power
    for k in range(uniform.size):
        rank = min(int((1 - uniform[k] * (1 - low)) ** (1 / power)), n_types)
        while rank > 0:
            rank -= 1
            out[end] = 97 + rank % 26
            rank //= 26
            end += 1
        out[end] = 10 if (start + k + 1) % SENTENCE == 0 else 32
        end += 1
    return end


# ---- in a process of its own


def train(job: Job, files: dict[str, str]) -> Result:
    """Seconds of each stage, the most memory that is not file-backed, and bytes on disk."""
    with tempfile.TemporaryDirectory(dir=files["folder"]) as folder, watched_memory() as peaks:
        cache = Path(folder) / "cache"
        vectors, watch = run_embedx(job, files["generated"], cache)
        stages = {title: end - start for title, (start, end) in watch.stages.items()}
        start = time.perf_counter()
        vectors.save(Path(folder) / "model")
        stages["saving"] = time.perf_counter() - start
        encoded, model = (bytes_in(Path(folder) / name) for name in ("cache", "model"))
        types = sum(file.stat().st_size // 8 for file in cache.rglob("counts.npy"))
    facts = vectors.facts
    return {
        "stages": stages,
        "anonymous": peaks[0],
        "encoded": encoded,
        "model": model,
        "text": os.path.getsize(files["generated"]),
        "tokens": facts["corpus_tokens"],
        "trained": facts["words_trained"],
        "vocabulary": len(vectors),
        "types": types,
    }


def read(job: Job, files: dict[str, str]) -> Result:
    """On so many cores of those there are, with as many threads, or processes of gensim's."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job["cores"]])
    return (read_embedx if job["tool"] == "embedx" else read_gensim)(
        files[job["form"]], job["cores"]
    )


def read_embedx(file: str, threads: int) -> Result:
    """Nothing is in the token cache; the kernels are compiled on a line of text before."""
    with tempfile.TemporaryDirectory() as folder:
        line = Path(folder) / "line.txt"
        line.write_text("a line of text")
        for name in (str(line), file):
            settings = TextSettings.from_options(recipe_defaults([name]))
            start = time.perf_counter()
            with encode(
                name, settings, Silent(), Path(folder) / "cache", threads=threads
            ) as corpus:
                result = {"seconds": time.perf_counter() - start, "tokens": corpus.n_tokens}
    return result


def read_gensim(file: str, threads: int) -> Result:
    """WikiCorpus with as many processes; it leaves out short articles, and words of one letter."""
    from gensim.corpora.wikicorpus import WikiCorpus

    start = time.perf_counter()
    tokens = sum(
        len(text) for text in WikiCorpus(file, processes=threads, dictionary={}).get_texts()
    )
    return {"seconds": time.perf_counter() - start, "tokens": tokens}


# ---- tables


def pace(result: Result | None) -> float | None:
    return result["trained"] / result["stages"]["training"] if result else None


def stages(records: Records) -> str:
    rows = []
    for name in TRAINED:
        result = records.last(kind="train", corpus=name)
        if result is not None:
            took = result["stages"]
            size = result["text"]
            rows.append(
                {
                    "corpus": name,
                    "words": f"{result['tokens']:,}",
                    "types": f"{result['types']:,}",
                    "vocabulary": f"{result['vocabulary']:,}",
                    "text": amount(size),
                    "reading, s": number(took["reading"], 0),
                    "words/s read": thousands(result["tokens"] / took["reading"]),
                    "training, s": number(took["training"], 0),
                    "words/s trained": thousands(pace(result) or 0),
                    "saving, s": number(took["saving"], 0),
                    "most memory": amount(result["anonymous"]),
                    "encoded": amount(result["encoded"]),
                    "model": amount(result["model"]),
                }
            )
    return table(rows)


def amount(n_bytes: float) -> str:
    return f"{n_bytes / GIBIBYTE:.2f} GiB"


def reading(records: Records) -> str:
    rows = []
    for form in FORMS:
        for tool, cores in (*(("embedx", cores) for cores in CORES), ("gensim", max(CORES))):
            seconds = records.median("seconds", kind="read", form=form, tool=tool, cores=cores)
            if seconds is not None:
                if tool == "embedx":
                    one = records.median("seconds", kind="read", form=form, tool="embedx", cores=1)
                else:
                    one = None
                tokens = records.last(kind="read", form=form, tool=tool, cores=cores)
                rows.append(
                    {
                        "form": form,
                        "tool": tool,
                        "cores": str(cores),
                        "seconds": number(seconds, 2),
                        "words/s": thousands((tokens or {})["tokens"] / seconds),
                        "times one core's": number(one / seconds if one and cores > 1 else None, 2),
                    }
                )
    return table(rows)


def targets(records: Records) -> str:
    small, large = (records.last(kind="train", corpus=name) for name in TRAINED)
    memory = large["anonymous"] if large else None
    kept = (pace(large) or 0) / (pace(small) or 1) if small and large else None
    rows = [
        target(
            "an epoch of a billion words inside 16 GiB",
            memory and amount(memory),
            bool(memory and memory <= MAX_MEMORY),
        ),
        target(
            "at least 80 % of the small corpus's words per second",
            kept and f"{kept:.0%}",
            exceeds((kept or 0) - MIN_PACE, PACE_ERROR),
        ),
    ]
    for form in FORMS:
        gain = ratio(records, {"tool": "embedx", "cores": 1}, {"tool": "embedx", "cores": 2}, form)
        rows.append(
            target(
                f"{form}: two cores read 1.6 times as fast as one",
                gain and f"{gain:.2f}",
                (gain or 0) >= MIN_GAIN,
            )
        )
    lead = ratio(records, {"tool": "gensim", "cores": 2}, {"tool": "embedx", "cores": 2}, "dump")
    rows.append(
        target(
            "a dump five times as fast as gensim's WikiCorpus",
            lead and f"{lead:.1f}",
            (lead or 0) >= MIN_LEAD,
        )
    )
    return table(rows)


def ratio(records: Records, a: Job, b: Job, form: str) -> float | None:
    """How many times as long one takes to read as another."""
    first, second = (records.median("seconds", kind="read", form=form, **job) for job in (a, b))
    return first / second if first and second else None


EXPERIMENT = Experiment(
    name="scale",
    title="Corpora at full scale",
    choices={
        "section": ("billion", "reading", "stages"),
        "corpus": tuple(TRAINED),
        "form": FORMS,
        "task": scale_stages.TASKS,
    },
    jobs=jobs,
    measure=measure,
    prepare=prepare,
    tables={
        "targets": targets,
        "stages": stages,
        "reading": reading,
        "estimates": scale_stages.targets,
        "cores": scale_stages.stages,
        "lock": scale_stages.lock,
    },
    plots={},
    settings={"repetitions": 3, "corpus": None},
    quick={"repetitions": 1},
    packages=("gensim",),
    needs=needs,
    mixed=True,
)
