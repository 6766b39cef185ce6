"""One model or two as an HTML page: settings, curves, scores, nearest words and a map, or the
errors of a classifier.
"""
