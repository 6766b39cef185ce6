"""Training on a Ray cluster: workers that train apart, and one set of parameters that they keep up to date."""
