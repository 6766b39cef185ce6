"""Measurements of embedx through its public interface, each with its records and its page: `python
-m eval` lists them.
"""
