"""One measurement of `graphs` in a process of its own: a tool makes vectors of a graph or of
sessions, or vectors are scored.

Seconds are of the wall clock, from the opened file of edges to the vectors on disk; imports are not
timed, and neither is compiling embedx's kernels, which happens once on a machine: it trains on a
few edges beforehand. PecanPy compiles in every process, and that is timed. The peers run in an
interpreter of their own, without embedx: imports are made where used.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from eval.speed_process import Files, Job, Result, status

THREADS = 2


def train(job: Job, files: Files) -> Result:
    """Vectors of a graph at files["vectors"]: seconds, and the peak of memory in bytes."""
    return TOOLS[job["tool"]](job, files[job["data"]], files["vectors"]) | {"peak": status("VmHWM")}


def embedx(job: Job, edges: str, vectors: str) -> Result:
    from embedx import SkipGram

    options = {
        name: job[name]
        for name in ("walks", "walk_length", "p", "q", "weighted", "dim", "window", "seed")
    }
    small = Path(vectors).with_name("small.edges")
    small.write_text("".join(f"{k} {(k + 1) % 100} 1\n{k} {(k + 7) % 100} 2\n" for k in range(100)))
    # which decides the optimiser
    is_large = job["nodes"] * job["walks"] * job["walk_length"] > 3_000_000
    SkipGram(**options | {"walks": 500 if is_large else 1}, threads=THREADS, verbose=False).fit(
        str(small)
    )
    before = status("VmRSS")
    start = time.perf_counter()
    trained = SkipGram(**options, threads=THREADS, verbose=False).fit(edges)
    trained.save(vectors, overwrite=True)
    facts = trained.model.facts
    return {"seconds": time.perf_counter() - start, "training": facts["seconds"], "before": before}


def pecanpy(job: Job, edges: str, vectors: str) -> Result:
    from gensim.models import Word2Vec
    from pecanpy import pecanpy as tool

    start = time.perf_counter()
    is_first_order = job["p"] == job["q"] == 1
    if is_first_order:
        mode = "FirstOrderUnweighted" if not job["weighted"] else "PreCompFirstOrder"
    else:
        mode = "SparseOTF"
    graph = getattr(tool, mode)(job["p"], job["q"], workers=THREADS, random_state=job["seed"])
    graph.read_edg(edges, weighted=job["weighted"], directed=False)
    graph.preprocess_transition_probs()
    walks = graph.simulate_walks(num_walks=job["walks"], walk_length=job["walk_length"])
    walked = time.perf_counter() - start
    fit(Word2Vec, job, sentences=walks).wv.save_word2vec_format(vectors)
    return {"seconds": time.perf_counter() - start, "walks": walked, "mode": mode}


def fastnode2vec(job: Job, edges: str, vectors: str) -> Result:
    from fastnode2vec import Graph, Node2Vec

    start = time.perf_counter()
    with open(edges, encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    if job["weighted"]:
        pairs = [(a, b, float(w[0])) for a, b, *w in rows]
    else:
        pairs = [(a, b) for a, b, *_ in rows]
    graph = Graph(pairs, directed=False, weighted=job["weighted"])
    how = {name: job[name] for name in ("walk_length", "window", "p", "q", "seed", "dim")}
    model = Node2Vec(graph, workers=THREADS, **how)
    model.train(epochs=job["walks"], verbose=False)
    model.wv.save_word2vec_format(vectors)
    return {"seconds": time.perf_counter() - start}


def gensim(job: Job, text: str, vectors: str) -> Result:
    """On a text of embedx's walks, or on sessions; its outputs go beside the vectors, to score the
    next item.
    """
    from gensim.models import Word2Vec

    start = time.perf_counter()
    model = fit(Word2Vec, job, corpus_file=text)
    model.wv.save_word2vec_format(vectors)
    np.save(vectors + ".npy", model.syn1neg)
    return {"seconds": time.perf_counter() - start}


def fit(word2vec: Any, job: Job, **corpus: Any) -> Any:
    """gensim's skip-gram with negative sampling, at its defaults for the rest."""
    return word2vec(
        **corpus,
        vector_size=job["dim"],
        window=job["window"],
        sg=1,
        min_count=1,
        sample=0,
        workers=THREADS,
        seed=job["seed"],
        epochs=job.get("epochs", 1),
        ns_exponent=job.get("exponent", 0.75),
    )


def sessions(job: Job, text: str, vectors: str) -> Result:
    """embedx on sessions."""
    from embedx import SkipGram

    how = {
        "dim": job["dim"],
        "window": job["window"],
        "epochs": job["epochs"],
        "sampler_exponent": job["exponent"],
    }
    how |= {"min_count": 1, "sample": 0, "seed": job["seed"], "threads": THREADS, "verbose": False}
    SkipGram(**how).fit(text)  # compiles, and reads the text
    start = time.perf_counter()
    SkipGram(**how).fit(text).save(vectors, overwrite=True)
    return {"seconds": time.perf_counter() - start}


TOOLS = {
    "embedx": embedx,
    "PecanPy": pecanpy,
    "fastnode2vec": fastnode2vec,
    "gensim": gensim,
    "gensim, same walks": gensim,
    "embedx, sessions": sessions,
}


def write_walks(job: Job, files: Files) -> Result:
    """The walks that embedx trains on, as text at files["walks"]."""
    from embedx.graphs.read import read_graph
    from embedx.graphs.settings import GraphSettings
    from embedx.graphs.walks import Walks
    from embedx.runtime.progress import Silent

    settings = GraphSettings(
        **{name: job[name] for name in ("walks", "walk_length", "p", "q", "weighted")}
    )
    walks = Walks(
        read_graph([files[job["data"]]], settings, Silent(), None, THREADS), settings, job["seed"]
    )
    names = [*walks.graph.names, "\n"]
    tokens = np.zeros(100_000, dtype=np.int32)
    with open(files["walks"], "w", encoding="utf-8") as text:
        for chunk in range(walks.n_chunks(len(tokens))):
            n = walks.write_chunk(1, chunk, len(tokens), tokens)
            text.write(
                " ".join([names[token] for token in tokens[:n]])
                .replace(" \n ", "\n")
                .replace(" \n", "\n")
            )
    return {}


def score(job: Job, files: Files) -> Result:
    """The scores that the data set is for, by `embedx eval`'s own functions."""
    import embedx
    from embedx.evaluation import graphs, sessions
    from embedx.runtime.progress import Silent

    model: Any = embedx.load(files["vectors"])
    if job["task"] == "labels":
        return {"rows": graphs.node_labels(model, files[f"{job['data']}-labels"], 0, Silent())}
    if job["task"] == "links":
        return {
            "rows": graphs.links(
                model, files[f"{job['data']}-links"], files[f"{job['data']}-others"], 0, Silent()
            )
        }
    if job["tool"] == "gensim":
        model = Items(model, np.load(files["vectors"] + ".npy"), files[job["data"]], job["window"])
    return {"rows": sessions.next_item(model, files[f"{job['data']}-test"], Silent())}


class Items:
    """gensim's vectors with its outputs, and what else scoring the next item asks of a model."""

    def __init__(self, model: Any, outputs: np.ndarray, text: str, window: int) -> None:
        self.model = model
        self.vectors = model.vectors
        self.outputs = outputs
        self.facts = {"sources": [text]}
        self.settings = {"window": window}
        self.counts = np.zeros(len(model))
        for word in Path(text).read_text("utf-8").split():
            self.counts[model.index(word)] += 1

    def __len__(self) -> int:
        return len(self.model)

    def __contains__(self, word: str) -> bool:
        return word in self.model

    def index(self, word: str) -> int:
        return int(self.model.index(word))

    def of(self, which: str) -> Any:
        return type("Outputs", (), {"vectors": self.outputs})
