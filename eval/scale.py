"""Does embedx keep its pace at full scale? A billion words of twenty million types; corpora read on one core and on two.

Sections: `billion`, one epoch of `ns` on a generated text of a billion words, stage by stage, beside one of twenty million
words by the same law; `reading`, the forms that corpora come in, Wikipedia's dumps beside gensim's WikiCorpus with as many
processes as cores. Every measurement is a process of its own (`scale_process.py`), and they take turns.
"""

import bz2
import gzip
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval import corpus, generated_text
from eval.experiment import Experiment, Run, in_process
from eval.page import exceeds, number, table, target, thousands
from eval.records import Job, Records, Result

TRAINED: dict[str, Job] = {
    "small": {"words": 20_000_000, "types": 480_000}, "large": {"words": 1_000_000_000, "types": 24_000_000},
}  # fmt: skip
SETTINGS: Job = {
    "objective": "ns", "dim": 100, "window": 5, "negatives": 5, "sample": 1e-3, "min_count": 5, "epochs": 1, "threads": 2,
    "seed": 1, "options": {},
}  # fmt: skip
CORES = (1, 2)  # that a process may use; it reads with as many threads
FORMS = ("plain", "gz", "bz2", "dump")
DUMP = "corpora/wikidump/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
DUMP_COPIES = 12  # of its pages, for a longer dump
GIBIBYTE = 2**30
MAX_MEMORY, MIN_PACE, MIN_GAIN, MIN_LEAD = 16 * GIBIBYTE, 0.8, 1.6, 5.0
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
                    yield {"kind": "read", "form": form, "tool": "embedx", "cores": cores, "repetition": repetition}
                if form == "dump" and run.need("gensim", "gensim"):
                    yield {"kind": "read", "form": form, "tool": "gensim", "cores": max(CORES), "repetition": repetition}


def prepare(run: Run) -> dict[str, Any]:
    """The corpus in its forms, where reading is measured."""
    if "reading" not in run.chosen("section"):
        return {"data": {}}
    about = corpus.unpacked(run)
    text, forms = Path(run.files["text"]), run.chosen("form")
    if "gz" in forms:
        with text.open("rb") as source, gzip.open(run.folder / "text.gz", "wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    if "bz2" in forms:  # streams of 900 kB, as pbzip2 writes
        with text.open("rb") as source, (run.folder / "text.bz2").open("wb") as out:
            out.writelines(bz2.compress(part) for part in iter(lambda: source.read(900_000), b""))
    if "dump" in forms:
        about["dump bytes"] = write_dump(run.folder / "dump.xml.bz2", bz2.decompress((run.data / DUMP).read_bytes()))
    run.files |= {form: str(run.folder / f"text.{form}") for form in ("gz", "bz2")}
    run.files |= {"plain": run.files["text"], "dump": str(run.folder / "dump.xml.bz2")}
    return {"corpus": about}


def write_dump(file: Path, xml: bytes) -> int:
    """One dump with the pages of another several times over, in streams of their own as in a multistream dump; its bytes."""
    first, last = xml.index(b"<page>"), xml.rindex(b"</page>") + len(b"</page>")
    packed = bz2.compress(xml[first:last])
    with file.open("wb") as out:
        out.write(bz2.compress(xml[:first]))
        out.writelines([packed] * DUMP_COPIES)
        out.write(bz2.compress(xml[last:]))
    return len(xml) + (DUMP_COPIES - 1) * (last - first)


def measure(run: Run, job: Job) -> Result:
    if job["kind"] == "read":
        return in_process("eval.scale_process", job, run.files)
    text = run.folder / "generated"
    generated_text.write(text, job["words"], job["types"])
    try:
        return in_process("eval.scale_process", job, {"generated": str(text), "folder": str(run.folder)})
    finally:
        text.unlink()


# ---- tables


def pace(result: Result | None) -> float | None:
    return result["trained"] / result["stages"]["training"] if result else None


def stages(records: Records) -> str:
    rows = []
    for name in TRAINED:
        found = records.last(kind="train", corpus=name)
        if found is not None:
            took, size = found["stages"], found["text"]
            rows.append({
                "corpus": name, "words": f"{found['tokens']:,}", "types": f"{found['types']:,}",
                "vocabulary": f"{found['vocabulary']:,}", "text": amount(size),
                "reading, s": number(took["reading"], 0), "words/s read": thousands(found["tokens"] / took["reading"]),
                "training, s": number(took["training"], 0), "words/s trained": thousands(pace(found) or 0),
                "saving, s": number(took["saving"], 0), "most memory": amount(found["anonymous"]),
                "encoded": amount(found["encoded"]), "model": amount(found["model"]),
            })  # fmt: skip
    return table(rows)


def amount(n_bytes: float) -> str:
    return f"{n_bytes / GIBIBYTE:.2f} GiB"


def reading(records: Records) -> str:
    rows = []
    for form in FORMS:
        for tool, cores in (*(("embedx", cores) for cores in CORES), ("gensim", max(CORES))):
            found = records.median("seconds", kind="read", form=form, tool=tool, cores=cores)
            if found is not None:
                one = records.median("seconds", kind="read", form=form, tool="embedx", cores=1) if tool == "embedx" else None
                tokens = records.last(kind="read", form=form, tool=tool, cores=cores)
                rows.append({
                    "form": form, "tool": tool, "cores": str(cores), "seconds": number(found, 2),
                    "words/s": thousands((tokens or {})["tokens"] / found),
                    "times one core's": number(one / found if one and cores > 1 else None, 2),
                })  # fmt: skip
    return table(rows)


def targets(records: Records) -> str:
    small, large = (records.last(kind="train", corpus=name) for name in TRAINED)
    rows = []
    memory = large["anonymous"] if large else None
    rows.append(target(
        "an epoch of a billion words inside 16 GiB", memory and amount(memory), bool(memory and memory <= MAX_MEMORY)
    ))  # fmt: skip
    kept = (pace(large) or 0) / (pace(small) or 1) if small and large else None
    rows.append(target(
        "at least 80 % of the small corpus's words per second", kept and f"{kept:.0%}",
        exceeds((kept or 0) - MIN_PACE, PACE_ERROR),
    ))  # fmt: skip
    for form in FORMS:
        one, two = (records.median("seconds", kind="read", form=form, tool="embedx", cores=cores) for cores in CORES)
        gain = one / two if one and two else None
        rows.append(target(
            f"{form}: two cores read 1.6 times as fast as one", gain and f"{gain:.2f}", bool(gain and gain >= MIN_GAIN)
        ))  # fmt: skip
    dump = {"kind": "read", "form": "dump", "cores": max(CORES)}
    gensim, own = (records.median("seconds", tool=tool, **dump) for tool in ("gensim", "embedx"))
    lead = gensim / own if gensim and own else None
    rows.append(target(
        "a dump five times as fast as gensim's WikiCorpus", lead and f"{lead:.1f}", bool(lead and lead >= MIN_LEAD)
    ))  # fmt: skip
    return table(rows)


EXPERIMENT = Experiment(
    name="scale",
    title="Corpora at full scale",
    choices={"section": ("billion", "reading"), "corpus": tuple(TRAINED), "form": FORMS},
    jobs=jobs, measure=measure, prepare=prepare,
    tables={"targets": targets, "stages": stages, "reading": reading}, plots={},
    settings={"repetitions": 3, "corpus": None}, quick={"repetitions": 1}, packages=("gensim",), mixed=True,
)  # fmt: skip
