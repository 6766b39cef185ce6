"""Training and prediction by workers on a Ray cluster: a parameter server on the head, and a
replica on each worker.
"""
