"""The training loop of every task: threads, schedule, checkpoints, divergence guard."""
