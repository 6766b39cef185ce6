"""A run in a process of its own, as `embedx compare` starts it: `python -m embedx.tasks REQUEST`.

The file REQUEST is that of `RunRequest.to_json`. The last line on standard output is what the model
records, as by --json. Errors are the last line on standard error, as by `text_to_json`, with the
exit code of the command line. That of a run that diverged does not say where its model is, which
the caller deletes.
"""

import json
import sys
from pathlib import Path

from embedx.errors import DivergedError, EmbedxError, text_to_json
from embedx.runtime.progress import Reporter
from embedx.spelling import on_command_line
from embedx.tasks.requests import request_of_json
from embedx.tasks.run import run_request


def print_error(error: EmbedxError) -> None:
    """Print an error, whose settings the starting process spells."""
    print(json.dumps(text_to_json(error.parts), default=str), file=sys.stderr)


def main() -> None:
    """Carry out the request."""
    request = request_of_json(Path(sys.argv[1]).read_text("utf-8"))
    try:
        with Reporter(sys.stderr, request.log, spelling=on_command_line) as progress:
            model = run_request(request, progress).model
    except DivergedError as error:
        without_model = DivergedError(error.problem, error.remedy)
        print_error(without_model)
        sys.exit(error.exit_code)
    except EmbedxError as error:
        print_error(error)
        sys.exit(error.exit_code)
    print(json.dumps({**model.facts, "settings": model.settings}))


if __name__ == "__main__":
    main()
