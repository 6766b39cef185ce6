"""Templates of HTML pages that need no other file and no network; light and dark, readable on a
phone.
"""
