"""Objectives compared on the user's own data: trained in turn, scored on the same items, ranked
within their errors.
"""
