"""`json.merge@v1`: merges values into a JSON file, like /etc/docker/daemon.json.

The interpreter runs once when the component is built, up to the end of this module; what is on the
node then starts from that state. So nothing here may depend on when or where it was built.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import files, report, types

import merge

DESCRIPTOR = {
    "kind": "json.merge@v1",
    "summary": "Merges values into a JSON file.",
    "effect": "converge",
    "input_schema": {
        "type": "object",
        "required": ["path", "patch"],
        "additionalProperties": False,
        "properties": {
            "path": {"type": "string", "description": "The file: `root/relative/path`."},
            "patch": {
                "type": "object",
                "description": "What is merged into it: objects are merged, null removes a name (RFC 7386).",
            },
        },
    },
    "output_schema": {
        "type": "object",
        "required": ["path", "digest"],
        "properties": {
            "path": {"type": "string", "description": "Where it is: `root/relative/path`."},
            "digest": {"type": "string", "description": "`sha256:<hex>` of its content."},
        },
    },
    "requests": {"files": "compares the file with what it should hold, and writes it"},
    "probes": True,
    "undoes": False,
}

CONTENT_LIMIT = 1 << 20


class Step(exports.Step):
    def describe(self) -> str:
        return json.dumps(DESCRIPTOR, sort_keys=True)

    def probe(self, ctx: types.Context, input: str) -> types.Observation:
        path, old, new = plan(input)
        if old == new:
            return types.Observation_Satisfied(output(path, new))
        return types.Observation_Unsatisfied(merge.difference(path, old, new))

    def run(self, ctx: types.Context, input: str) -> str:
        path, _, new = plan(input)
        try:
            changed = files.write(path, new.encode(), files.Attributes(mode=0o644, owner=None, group=None))
        except Err as error:
            raise refused(path, error.value)
        report.log(report.Level.INFO, f"`{path}` was written" if changed else f"`{path}` is as it should be")
        return output(path, new)

    def undo(self, ctx: types.Context, input: str, output: str | None) -> None:
        raise failure("PERMANENT", "step.cannot-undo", "what the file held before is not kept; nothing can be put back")


def plan(text):
    """The path, what it holds and what it should hold."""
    input = json.loads(text)
    path = input["path"]
    try:
        old = files.read(path, CONTENT_LIMIT).decode()
        current = json.loads(old)
    except Err as error:
        if not isinstance(error.value, files.Error_NotFound):
            raise refused(path, error.value)
        old, current = "", {}
    except ValueError as error:
        raise failure("PERMANENT", "json.malformed", f"`{path}` is no JSON: {error}; mend or remove it")
    return path, old, merge.text(merge.merge(current, input["patch"]))


def output(path, content):
    return json.dumps({"path": path, "digest": merge.digest(content)}, sort_keys=True)


def refused(path, error):
    """What the host said about a file, as a failure."""
    if isinstance(error, files.Error_AccessDenied):
        return failure("DENIED", "files.access-denied", f"`{path}` is not granted; grant its root with `files.write`")
    detail = getattr(error, "value", type(error).__name__)
    return failure("PERMANENT", "files.failed", f"`{path}` cannot be used: {detail}")


def failure(kind, code, message):
    return Err(types.Failure(types.FailureClass[kind], code, message))
