"""Hostile input for every reader: valid files, changed at random, are read or refused in one line,
with bounded work.
"""
