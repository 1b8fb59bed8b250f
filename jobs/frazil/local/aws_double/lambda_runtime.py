"""The process of an execution environment: `python -E -S lambda_runtime.py EVENTS ANSWERS PACKAGES`.

It runs in the folder of the code. EVENTS and ANSWERS are named pipes: each line of EVENTS is one invocation, and its
result is one line of ANSWERS.

As in Lambda, a function can import its own zip, its layers, the standard library and boto3, but no other package of the
double's environment. A package that is missing from the zip is therefore missing here too.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

PROVIDED = frozenset({"boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six", "urllib3"})


class Provided:
    """An import finder for the packages that the Lambda runtime provides, in a folder that holds other packages too."""

    def __init__(self, packages: str) -> None:
        self._packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        if path is not None or name not in PROVIDED:
            return None
        return importlib.machinery.PathFinder.find_spec(name, [self._packages])


class Context:
    """The attributes of Lambda's context object that functions use."""

    def __init__(self, request_id: str, seconds: float) -> None:
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.invoked_function_arn = os.environ["_INVOKED_FUNCTION_ARN"]
        self.aws_request_id = request_id
        self._deadline = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def answer(event: object, context: Context) -> dict[str, object]:
    """Return `{"answer": …}` with the function's result, or `{"error": …}` in the form that Lambda reports errors."""
    try:
        module, function = os.environ["_HANDLER"].rsplit(".", 1)
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
        return {"answer": json.loads(json.dumps(handler(event, context)))}
    except BaseException as exc:  # noqa: BLE001 - Lambda reports sys.exit() as an error too
        traceback.print_exc()
        return {"error": _failure(exc, context.aws_request_id)}


def _failure(exc: BaseException, request_id: str) -> dict[str, object]:
    trace = traceback.format_tb(exc.__traceback__)
    return {"errorMessage": str(exc), "errorType": type(exc).__name__, "requestId": request_id, "stackTrace": trace}


def main(events: str, answers: str, packages: str) -> None:
    layers = os.environ.pop("_LAYERS", "")
    sys.path[:0] = [str(Path.cwd()), *filter(None, layers.split(os.pathsep))]
    sys.meta_path.append(Provided(packages))
    with Path(events).open(encoding="utf-8") as asked, Path(answers).open("w", encoding="utf-8") as written:
        for line in asked:
            given = json.loads(line)
            result = answer(given["event"], Context(given["request_id"], given["seconds"]))
            sys.stdout.flush()
            sys.stderr.flush()
            written.write(f"{json.dumps(result)}\n")
            written.flush()


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    main(*sys.argv[1:])
