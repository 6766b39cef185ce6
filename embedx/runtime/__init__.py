"""What is neither task nor text: progress, memory, disk, the limits of containers, interrupts,
locks, files written whole, the folders of caches.
"""
