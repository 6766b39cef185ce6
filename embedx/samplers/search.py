"""The rows that an index finds to score highest compete (`embedx.search`), as the objective's `search` says."""

from embedx.samplers.contract import Sampler


class Search(Sampler):
    name = "search"
    meaning = "found by an index to score highest"
    candidates = "retrieved"
    needs_dense_inputs = True
