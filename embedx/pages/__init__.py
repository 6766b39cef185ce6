"""Pages that need nothing else: no file, no network; light and dark, and readable on a phone."""
