"""The candidates are the inner nodes on the path to the positive, in the tree of an objective."""

from embedx.samplers.contract import Sampler, SamplerData, new_data


class Path(Sampler):
    name = "path"
    meaning = "the nodes on the path to the positive in a tree"
    candidates = "path"

    def data(self, n_draws: int) -> SamplerData:
        assert self.paths is not None, "an objective that takes the sampler `path` has a tree"
        return new_data(offsets=self.paths.offsets, rows=self.paths.nodes, values=self.paths.bits)
