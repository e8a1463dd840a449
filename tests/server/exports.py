"""A reader of exports that takes whatever is in its place and believes nothing: counts and checksums must hold."""

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chalicelib.domain.exports.export import FILES, FOLDER, SUMMARY


@dataclass(frozen=True, slots=True)
class Found:
    """An export as a reader finds it."""

    summary: dict[str, Any]
    files: list[dict[str, Any]]
    commits: list[tuple[int, int]]
    """Server and session of each."""


def exports_in(root: Path) -> list[Found]:
    """All exports that a reader would take, from early to late, each checked in full."""
    return [_found(root, path.parent) for path in sorted((root / FOLDER).glob(f"*/{SUMMARY}"))]


def commits_in(root: Path) -> list[tuple[int, int]]:
    """The commits of all exports together."""
    return [commit for found in exports_in(root) for commit in found.commits]


def _found(root: Path, export: Path) -> Found:
    summary = json.loads(_checked(export / SUMMARY))
    assert (root / summary["manifestFilesS3Key"]) == export / FILES
    files = [json.loads(line) for line in _checked(export / FILES).splitlines()]
    contents = [_lines(root, file) for file in files]
    assert summary["itemCount"] == sum(map(len, contents))
    member = "Item" if summary["exportType"] == "FULL_EXPORT" else "NewImage"
    images = [json.loads(line)[member] for lines in contents for line in lines]
    return Found(summary, files, [(int(image["server"]["N"]), int(image["session"]["N"])) for image in images])


def _lines(root: Path, file: dict[str, Any]) -> list[bytes]:
    content = (root / file["dataFileS3Key"]).read_bytes()
    md5 = hashlib.md5(content).digest()
    assert (file["md5Checksum"], file["etag"]) == (base64.b64encode(md5).decode(), md5.hex())
    lines = gzip.decompress(content).splitlines()
    assert file["itemCount"] == len(lines)
    return lines


def _checked(manifest: Path) -> bytes:
    content = manifest.read_bytes()
    wanted = base64.b64decode(manifest.with_suffix(".checksum").read_bytes())
    assert hashlib.md5(content).digest() == wanted
    return content
