"""The candidates are the rows with the highest scores, found by an index (`embedx.search`) as the
objective's `search` says.
"""

from embedx.samplers.contract import Sampler


class Search(Sampler):
    name = "search"
    meaning = "the rows with the highest scores, found by an index"
    candidates = "retrieved"
    needs_dense_inputs = True
