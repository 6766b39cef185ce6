"""Graphs: random walks in place of text, as in DeepWalk and node2vec. Nodes are the words, walks
the sentences.
"""
