"""What is kept on disk: model folders, written whole or not at all, and locks on folders."""
