"""Graphs: word2vec on random walks, as in DeepWalk and node2vec. Nodes are the words, and walks the sentences.

settings.py  --walks and what goes with it
graph.py     a graph as CSR, from edges, networkx and scipy
read.py      edge lists, .npz and .mtx files
walks.py     the compiled walker, and walks in place of a corpus
"""
