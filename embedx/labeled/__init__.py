"""Labelled data: file formats, features, labels, rules for choosing among them."""
