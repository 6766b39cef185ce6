"""What every run needs whatever it trains: threads, schedule, progress, interruption, memory, the folder on disk."""
