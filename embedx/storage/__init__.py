"""Model folders and other outputs: written whole or not at all, checked when they are read."""
