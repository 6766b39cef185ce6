"""One measurement in a process of its own: `python -m eval.process MODULE FUNCTION JOB FILES`
prints what the function returns.

JOB holds every setting that the result depends on, FILES maps names of files to paths; both are
JSON objects, as is the result.
"""

import json
import sys
from importlib import import_module

if __name__ == "__main__":
    module, function, job, files = sys.argv[1:]
    result = getattr(import_module(module), function)(json.loads(job), json.loads(files))
    print("\n" + json.dumps(result, default=lambda value: value.tolist()))
