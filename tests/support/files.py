"""Files of a folder."""


def files_below(folder):
    """Every file in a folder, with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
