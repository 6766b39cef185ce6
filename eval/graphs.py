"""Are embedx's vectors of nodes and items as good as PecanPy's, fastnode2vec's and gensim's, and in
how much less time?

Sections: `labels`, labels of nodes by logistic regression on their vectors; `links`, half of a
graph's edges found again; `sessions`, the next item; `memory`, a generated graph of many edges. All
tools make as many walks of the same length, or gensim trains on embedx's; each is at its defaults
for the rest. Every measurement is a process of its own, and the tools take turns. PecanPy needs a
numpy before 2.0, so the peers live in an environment of their own: --set
peers_python=ITS/bin/python.
"""

import gzip
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from eval import datasets
from eval.experiment import Experiment, Run, in_process
from eval.page import MEGABYTE, figure, mean_and_deviation, number, table
from eval.records import Job, Records, Result, has_failed

WALKS: Job = {"walk_length": 80, "p": 1.0, "q": 1.0, "dim": 128, "window": 10}  # node2vec's, 4.3
NODE2VEC = {"p": 0.25, "q": 0.25}  # what its authors chose for BlogCatalog, 4.3
GRAPHS: dict[str, Job] = {  # nodes are for the choice of a warm-up
    "blogcatalog": {"task": "labels", "weighted": False, "nodes": 10_312, "walks": 10},
    "wikipedia-pos": {"task": "labels", "weighted": True, "nodes": 4_777, "walks": 10},
    "ca-astroph": {"task": "links", "weighted": False, "nodes": 17_903, "walks": 5},
}
TOOLS = ("embedx", "PecanPy", "fastnode2vec", "gensim, same walks")
SESSIONS = "diginetica-sessions"
EXPONENTS = (0.75, -0.5)
ITEMS: Job = {"task": "sessions", "data": "diginetica", "dim": 100, "window": 5, "epochs": 5}
HIDDEN = 0.5  # of the edges
QUICK_LINES = 5000  # of each file, in a trial
# what stands for a set in a trial
STAND_IN_NODES = 200
STAND_IN_LABELS = 4
STAND_IN_ITEMS = 5  # of a session
SHARE = 0.5  # of the nodes whose labels are known, in the plot and where one number is shown


def jobs(run: Run) -> Iterator[Job]:
    sections = run.chosen("section")
    settings = run.settings
    remedy = "name the interpreter that has it by --set peers_python=PYTHON"
    tools = [
        tool
        for tool in run.chosen("tool")
        if tool == "embedx" or run.has(tool, settings.peers_python is not None, remedy)
    ]
    if "memory" in sections and "embedx" in tools:
        size = {
            "nodes": settings.memory_nodes,
            "edges": settings.memory_edges,
            "walks": 1,
            "walk_length": 20,
        }
        yield {
            "task": "memory",
            "tool": "embedx",
            "data": "generated",
            **WALKS,
            **size,
            "weighted": False,
            "seed": 1,
        }
    for seed in range(1, settings.seeds + 1):
        for data, about in (
            (data, about) for data, about in GRAPHS.items() if about["task"] in sections
        ):
            for more in ({}, NODE2VEC) if data == "blogcatalog" else ({},):
                chosen = tools if seed <= settings.peer_seeds else tools[:1]
                for tool in (
                    chosen if not more else [name for name in chosen if "same walks" not in name]
                ):
                    yield {
                        "tool": tool,
                        "data": data,
                        **WALKS,
                        **about,
                        **more,
                        "walks": settings.walks or about["walks"],
                        "seed": seed,
                    }
        if "sessions" in sections:
            for exponent in EXPONENTS:
                yield from (
                    {"tool": tool, **ITEMS, "exponent": exponent, "seed": seed}
                    for tool in ("embedx, sessions", "gensim")
                    if tool.split(",")[0] in " ".join(tools)
                )


def measure(run: Run, job: Job) -> Result:
    """Train in one process and score in another."""
    files = run.files | {
        "vectors": str(run.folder / f"vectors of {job['tool']}"),
        "walks": str(run.folder / "walks"),
    }
    call = partial(in_process, "eval.graphs_process")
    if job["tool"] == "embedx" and job["task"] == "memory":
        files["generated"] = generated(run, job)
    if job["tool"] == "gensim, same walks":
        call("write_walks", job, files)
        files[job["data"]] = files["walks"]
    python = {} if job["tool"].startswith("embedx") else {"python": run.settings.peers_python}
    result = call("train", job, files, **python)
    if has_failed(result) or job["task"] == "memory":
        return result
    return result | call("score", job, run.files | files)


# ---- data


def needs(run: Run) -> list[str]:
    """The sets of the chosen sections."""
    sections = run.chosen("section")
    names = [f"{name}-graph" for name, about in GRAPHS.items() if about["task"] in sections]
    return [*names, SESSIONS] if "sessions" in sections else names


def prepare(run: Run) -> dict[str, Any]:
    """The sets of the chosen sections as text with tabs, as PecanPy reads it, and a link graph cut
    in two.
    """
    sections = run.chosen("section")
    for name, about in GRAPHS.items():
        if about["task"] not in sections:
            continue
        edges, labels = graph(run, name)
        lines = first(run, edges).replace(" ", "\t")
        run.files[name] = written(run, name, lines)
        if about["task"] == "labels":
            run.files[f"{name}-labels"] = written(run, f"{name}-labels", labels)
        else:
            split(run, name, lines)
    if "sessions" in sections:
        for name, lines in zip(("diginetica", "diginetica-test"), sessions_of(run), strict=True):
            run.files[name] = written(run, name, first(run, lines))
    return {"data": {}}


def graph(run: Run, name: str) -> tuple[str, str]:
    """Lines of edges and of labels, which not all graphs have; generated ones in a trial run where
    the graph is not here.
    """
    recipe = datasets.recipe_of(f"{name}-graph", run.data_folder)
    if not run.quick or recipe.files_here():
        labels = recipe.labels_here()
        return unpacked(recipe.find_files()[0]), unpacked(labels) if labels else ""
    nodes = np.arange(STAND_IN_NODES)
    pairs = np.random.default_rng(0).choice(nodes, (QUICK_LINES, 2))
    weight = " 1" if GRAPHS[name]["weighted"] else ""
    edges = "".join(f"{a} {b}{weight}\n" for a, b in np.unique(np.sort(pairs), axis=0))
    return edges, "".join(f"{node} {node % STAND_IN_LABELS}\n" for node in nodes)


def sessions_of(run: Run) -> list[str]:
    """Lines of sessions to train on and to test on; in a trial run where they are not here all of
    the same generated items.
    """
    if not run.quick or datasets.is_here(SESSIONS, run.data_folder):
        return [unpacked(file) for file in datasets.files_of(SESSIONS, run.data_folder)]
    rng = np.random.default_rng(0)
    items = rng.choice(STAND_IN_NODES, (2, QUICK_LINES, STAND_IN_ITEMS)).astype(str)
    return ["".join(" ".join(session) + "\n" for session in part) for part in items.tolist()]


def unpacked(file: Path | str) -> str:
    return gzip.decompress(Path(file).read_bytes()).decode()


def first(run: Run, lines: str) -> str:
    """The lines; in a trial run the first of them."""
    return "".join(lines.splitlines(keepends=True)[: QUICK_LINES if run.quick else None])


def written(run: Run, name: str, text: str) -> str:
    file = run.folder / name
    file.write_text(text, "utf-8")
    return str(file)


def split(run: Run, name: str, lines: str) -> None:
    """Hide half of the edges of the largest component, which stays connected; and draw as many
    pairs without an edge.
    """
    rng = np.random.default_rng(0)
    edges = np.array([line.split() for line in lines.splitlines()], dtype=np.int64)
    edges = edges[edges[:, 0] != edges[:, 1]]
    n = int(edges.max()) + 1
    _, component = connected_components(
        coo_matrix((np.ones(len(edges)), edges.T), (n, n)), directed=False
    )
    edges = edges[component[edges[:, 0]] == np.bincount(component).argmax()]
    weights = coo_matrix((rng.random(len(edges)) + 1, edges.T), (n, n)).tocsr()
    tree = minimum_spanning_tree(weights).tocoo()
    in_tree = np.isin(
        edges @ [n, 1], np.stack([tree.row, tree.col], axis=1).astype(np.int64) @ [n, 1]
    )
    hidden = rng.permutation(np.flatnonzero(~in_tree))[: int(HIDDEN * len(edges))]
    nodes = np.unique(edges)
    is_hidden = np.isin(np.arange(len(edges)), hidden)
    pairs = np.sort(rng.choice(nodes, (2 * len(hidden), 2)), axis=1)
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & ~np.isin(pairs @ [n, 1], edges @ [n, 1])][
        : len(hidden)
    ]
    for what, rows in (
        (name, edges[~is_hidden]),
        (f"{name}-links", edges[is_hidden]),
        (f"{name}-others", pairs),
    ):
        run.files[what] = written(run, what, "".join(f"{a}\t{b}\n" for a, b in rows))


def generated(run: Run, job: Job) -> str:
    """A graph whose degrees have a power law of exponent 3."""
    file = run.folder / "generated"
    rng = np.random.default_rng(0)
    with file.open("w") as text:
        for start in range(0, job["edges"], 1_000_000):
            ends = (
                job["nodes"] * rng.random((min(1_000_000, job["edges"] - start), 2)) ** 2
            ).astype(np.int64)
            text.write("\n".join(map("\t".join, ends.astype(str).tolist())) + "\n")
    return str(file)


# ---- tables


def groups(records: Records, **job: Any) -> Iterator[tuple[Job, list[Result]]]:
    """The results of each contender over seeds."""
    by_job: dict[str, tuple[Job, list[Result]]] = {}
    for record in records.find(**job):
        key = str({name: value for name, value in record["job"].items() if name != "seed"})
        by_job.setdefault(key, (record["job"], []))[1].append(record["result"])
    yield from (
        (job, [result for result in results if not has_failed(result)])
        for job, results in by_job.values()
    )


def costs(job: Job, results: list[Result]) -> dict[str, Any]:
    return {
        "tool": job["tool"].split(", sessions")[0],
        "runs": len(results),
        "s, edges to vectors": number(
            statistics.median(result["seconds"] for result in results), 1
        ),
        "peak, MB": number(max(result["peak"] for result in results) / MEGABYTE, 0),
    }


def labels(data: str, records: Records) -> str:
    """F1 by the share of nodes whose labels are known."""
    rows = []
    for job, results in groups(records, task="labels", data=data):
        row = {"p, q": f"{job['p']:g}, {job['q']:g}", **costs(job, results)} if results else {}
        for share in (0.1, 0.5, 0.9):
            for kind in ("micro", "macro"):
                values = [result[f"{kind} F1"] for result in chosen(results, share)]
                row[f"{kind} F1, {share:.0%}"] = mean_and_deviation(values)
        rows.append(row)
    return table(rows)


def chosen(results: list[Result], share: float) -> list[Result]:
    """The rows of a share where the number of labels is known, as in the papers."""
    return [
        row
        for result in results
        for row in result["rows"]
        if row["share of nodes"] == share and row["number known"]
    ]


def links(records: Records) -> str:
    return table(
        [
            {
                **costs(job, results),
                **{
                    f"AUC, {kind}": mean_and_deviation(
                        [
                            row["AUC"]
                            for result in results
                            for row in result["rows"]
                            if row["score"] == kind
                        ]
                    )
                    for kind in ("dot", "cosine", "hadamard")
                },
            }
            for job, results in groups(records, task="links")
        ]
    )


def sessions(records: Records) -> str:
    """Rankings by vectors, and the two baselines, which are the same for all tools."""
    groups_of_sessions = [
        (job, results) for job, results in groups(records, task="sessions") if results
    ]
    measures = ("HR@10", "NDCG@10", "MRR")
    rows = []
    for job, results in groups_of_sessions:
        vector_rows = [
            row for result in results for row in result["rows"] if row["ranking"] == "vectors"
        ]
        scores = {
            measure: mean_and_deviation([row[measure] for row in vector_rows])
            for measure in measures
        }
        rows.append(
            {"ranking": "vectors", "exponent": job["exponent"], **costs(job, results), **scores}
        )
    if groups_of_sessions:
        baselines = [
            row for row in groups_of_sessions[0][1][0]["rows"] if row["ranking"] != "vectors"
        ]
    else:
        baselines = []
    rows += [
        {"ranking": row["ranking"], **{measure: number(row[measure]) for measure in measures}}
        for row in baselines
    ]
    return table(rows)


def memory(records: Records) -> str:
    return table(
        [
            {
                "nodes": f"{job['nodes']:,}",
                "edges": f"{job['edges']:,}",
                "s, edges to vectors": f"{result['seconds']:.0f}",
                "s training": f"{result['training']:.0f}",
                "peak, MB": f"{result['peak'] / MEGABYTE:,.0f}",
            }
            for job, results in groups(records, task="memory")
            for result in results
        ]
    )


def plot(records: Records) -> Any:
    """Macro F1 at half of the labels, or the best AUC, against seconds; filled markers are walks
    with p = q = 1.
    """
    picture, axes_of = figure(11, 4.2, len(GRAPHS), dpi=90)
    for axes, (data, about) in zip(axes_of, GRAPHS.items(), strict=True):
        is_label = about["task"] == "labels"
        for job, results in groups(records, task=about["task"], data=data):
            color = f"C{TOOLS.index(job['tool'])}"
            if is_label:
                y = [row["macro F1"] for row in chosen(results, SHARE)]
            else:
                y = [max(row["AUC"] for row in result["rows"]) for result in results]
            look = {
                "color": color,
                "marker": "o" if job["tool"] == "embedx" else "s",
                "facecolor": color if job["p"] == 1 else "none",
            }
            axes.scatter(
                [result["seconds"] for result in results],
                y,
                label=job["tool"] if job["p"] == 1 else None,
                **look,
            )
        axes.set(
            title=data,
            xlabel="seconds, edges to vectors",
            ylabel="macro F1, 50 %" if is_label else "AUC",
            xlim=(0, None),
        )
        axes.grid(visible=True, alpha=0.3)
    picture.legend(
        *axes_of[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(TOOLS),
        frameon=False,
    )
    return picture


EXPERIMENT = Experiment(
    name="graphs",
    title="Graphs and sessions, beside PecanPy, fastnode2vec and gensim",
    choices={"section": ("labels", "links", "sessions", "memory"), "tool": TOOLS},
    packages=("scipy", "scikit-learn"),
    settings={
        "seeds": 3,
        "peer_seeds": 1,
        "walks": None,
        "peers_python": None,
        "memory_nodes": 1_000_000,
        "memory_edges": 50_000_000,
    },
    quick={"seeds": 1, "walks": 2, "memory_nodes": 2_000, "memory_edges": 20_000},
    prepare=prepare,
    needs=needs,
    jobs=jobs,
    measure=measure,
    tables={
        **{
            name: partial(labels, name)
            for name, about in GRAPHS.items()
            if about["task"] == "labels"
        },
        "links": links,
        "sessions": sessions,
        "memory": memory,
    },
    plots={"": plot},
)
