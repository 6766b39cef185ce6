"""Word vectors: loaded, asked, saved, and exchanged with other programs."""
