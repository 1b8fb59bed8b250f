"""The process of one invocation: `python -E -S lambda_runtime.py EVENT ANSWER PACKAGES`, in the folder of the code.

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

    def __init__(self) -> None:
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.invoked_function_arn = os.environ.pop("_INVOKED_FUNCTION_ARN")
        self.aws_request_id = os.environ.pop("_REQUEST_ID")
        self._deadline = time.monotonic() + float(os.environ.pop("_TIMEOUT_SECONDS"))

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def answer(event: object) -> dict[str, object]:
    """Return `{"answer": …}` with the function's result, or `{"error": …}` in the form that Lambda reports errors."""
    context = Context()
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


def main(event: str, written: str, packages: str) -> None:
    layers = os.environ.pop("_LAYERS", "")
    sys.path[:0] = [str(Path.cwd()), *filter(None, layers.split(os.pathsep))]
    sys.meta_path.append(Provided(packages))
    result = answer(json.loads(Path(event).read_text(encoding="utf-8")))
    sys.stdout.flush()
    Path(written).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    main(*sys.argv[1:])
