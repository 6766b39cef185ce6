"""What every run needs, whatever it trains: threads, schedule, checkpoints, divergence guard."""
