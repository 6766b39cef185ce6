"""Titsias 2016, "One-vs-each approximation to softmax": Table 2, Figures 1 to 3 and the toy of
section 4.1.

table-2    unique optima of SOFT, BOUCHARD and OVE by L-BFGS, and OVE-SGD, on MNIST, 20NEWS and
           Bibtex
figure-1   probabilities of ten values from 200 points, by the three bounds
figure-1b  five classes in the plane: boundaries and bounds
figure-3   the bounds while training, on the same
large      OVE-SGD on AmazonCat-13K
stopped    BOUCHARD on MNIST, ended before its optimum, and nearer to it than in Table 2
splits     SOFT on other splits of Bibtex
toy        10,000 values and a million points, by stochastic descent
"""

from collections.abc import Iterator

from eval import papers_one_vs_each_fits as fits, papers_one_vs_each_toys as toys
from eval.experiment import Experiment, Run
from eval.records import Job, Result

SECTIONS = ("table-2", "figure-1", "figure-1b", "figure-3", "large", "stopped", "splits", "toy")
# Sections of a single data set.
DATA_OF = {"large": fits.LARGE, "stopped": "mnist", "splits": "bibtex"}


def jobs(run: Run) -> Iterator[Job]:
    sections = chosen_sections(run)
    data = small_sets(run)
    if "table-2" in sections:
        for name in data:
            yield from (
                fits.optimum(name, method, biases)
                for biases in fits.BIASES[name]
                for method in fits.METHODS
            )
            yield fits.optimum(name, "OVE-SGD", "free")
    if "figure-1" in sections:
        yield {"section": "figure-1"}
    if "figure-1b" in sections:
        yield {"section": "figure-1b"}
    if "figure-3" in sections:
        for name in data:
            yield from (fits.evolution(name, method) for method in (*fits.METHODS, "OVE-SGD"))
    if "large" in sections:
        yield from (fits.large(gradient) for gradient in fits.LARGE_GRADIENTS)
    if "stopped" in sections:
        yield from (fits.stopped(iterations) for iterations in fits.STOPPED)
        yield fits.at_optimum(fits.TENTH_OF_TOLERANCE)
    if "splits" in sections:
        yield from (fits.split(seed) for seed in fits.SPLITS)
    if "toy" in sections:
        yield from ({"section": "toy", "rate": name} for name in toys.TOY_RATES)


def chosen_sections(run: Run) -> list[str]:
    """The chosen sections, those of a single data set only if that is chosen too."""
    data = run.chosen("data")
    return [name for name in run.chosen("section") if DATA_OF.get(name, data[0]) in data]


def small_sets(run: Run) -> list[str]:
    """The chosen data sets of table 2 and figure 3."""
    return [name for name in run.chosen("data") if name != fits.LARGE]


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections."""
    sections = chosen_sections(run)
    names = small_sets(run) if {"table-2", "figure-3"} & {*sections} else []
    names += [DATA_OF[section] for section in sections if section in DATA_OF]
    return list(dict.fromkeys(names))


def measure(run: Run, job: Job) -> Result:
    data = run.data_folder
    quick = run.quick
    match job["section"]:
        case "table-2" if job["method"] == "OVE-SGD":
            return fits.measure_sgd(data, job["data"], quick)
        case "table-2":
            return fits.measure_optimum(data, job["data"], job["method"], job["biases"], quick)
        case "figure-1":
            return toys.measure_ten_values()
        case "figure-1b":
            return toys.measure_plane(20 if quick else toys.PLANE_EPOCHS)
        case "figure-3":
            return fits.measure_curve(data, job["data"], job["method"], quick)
        case "large":
            return fits.measure_large(data, job["gradient"], quick)
        case "stopped" if "tolerance" in job:
            return fits.measure_at_optimum(data, job["tolerance"], quick)
        case "splits":
            return fits.measure_split(data, job["split"], quick)
        case "stopped":
            return fits.measure_stopped(data, job["iterations"], quick)
        case _:
            n, epochs = (10_000, 1) if quick else (toys.TOY_POINTS, toys.TOY_EPOCHS)
            return toys.measure_large_toy(toys.TOY_RATES[job["rate"]], n, epochs)


EXPERIMENT = Experiment(
    name="papers-one-vs-each",
    title="One-vs-each (Titsias 2016) by embedx",
    choices={"section": SECTIONS, "data": (*fits.DATA, fits.LARGE)},
    packages=("scipy", "scikit-learn"),
    jobs=jobs,
    needs=needs,
    measure=measure,
    tables={
        "table-2": fits.table_2,
        "ends": fits.ends,
        "large": fits.large_table,
        "stopped": fits.stopped_table,
        "splits": fits.splits_table,
        "figure-1": toys.figure_1,
        "figure-1b": toys.figure_1b,
        "figure-3": fits.figure_3,
        "toy": toys.toy,
    },
    plots={
        "": toys.plot,
        "-plane": toys.plot_of_plane,
        "-evolution": fits.plot_of_evolution,
    },
    mixed=True,
)
