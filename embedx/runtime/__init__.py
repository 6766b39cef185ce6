"""General services: progress, memory, disk, limits of containers, interrupts, locks, atomic files,
cache folders.
"""
