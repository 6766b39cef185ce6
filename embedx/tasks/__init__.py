"""From a request to a trained model: the stages of a run, written once (run.py), and what the two
tasks do at each.
"""
