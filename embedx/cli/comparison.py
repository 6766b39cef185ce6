"""The work of `embedx compare`: objectives are compared, and the ranking is printed."""

import json
import sys

from embedx.cli.requests import CompareRequest
from embedx.cli.streams import request_progress
from embedx.comparison import compare as comparison, tables
from embedx.comparison.data import variants_of
from embedx.pages.plain import as_cell


def compare(request: CompareRequest) -> None:
    """Compare objectives on text or labelled data, and print the ranking."""
    files = {name: getattr(request, name) for name in comparison.FILES}
    with request_progress(request) as progress:
        ranked = comparison.compare_files(
            request.data,
            files,
            request.options,
            None if request.objectives is None else variants_of(request.objectives),
            request.output,
            resume=request.resume,
            overwrite=request.overwrite,
            progress=progress,
            command=["embedx", *sys.argv[1:]],
        )
    if request.as_json:
        record = tables.as_dict(ranked.ranking, progress.spelling)
        print(json.dumps({"folder": str(ranked.folder), **record}))
    else:
        print(ranked)
        print(as_cell(str(ranked.folder / comparison.PAGE)))
    if ranked.interrupted:
        raise KeyboardInterrupt
