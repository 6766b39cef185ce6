"""What every run needs, whatever it trains: threads, schedule, progress, checkpoints, the
divergence guard, memory.
"""
