"""What `json.merge@v1` computes. It knows nothing of the node, so it is tested in any Python."""

import difflib
import hashlib
import json


def merge(current, patch):
    """A JSON merge patch (RFC 7386): objects are merged, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def text(document):
    """The one form in which a document is written: the same document is always the same bytes."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def difference(path, old, new):
    """What would change, for a person to read."""
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), path, path))


def digest(content):
    """The SHA-256 of a text, as the contract writes digests."""
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()
