"""The task of classification: from labelled data to a classifier."""
