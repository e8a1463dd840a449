"""Reads exports like a downstream job and verifies all counts and checksums."""

import base64
import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chalicelib.domain.exports.export import EXPORTS_FOLDER, FILES_MANIFEST, SUMMARY_MANIFEST


@dataclass(frozen=True, slots=True)
class ReadExport:
    """A verified export."""

    summary: dict[str, Any]
    files: list[dict[str, Any]]
    commits: list[tuple[int, int]]
    """Server and session of each commit."""


def read_exports(root: Path) -> list[ReadExport]:
    """All exports, oldest first. Verifies counts and checksums."""
    return [_read_export(root, path.parent) for path in sorted((root / EXPORTS_FOLDER).glob(f"*/{SUMMARY_MANIFEST}"))]


def read_commits(root: Path) -> list[tuple[int, int]]:
    return [commit for export in read_exports(root) for commit in export.commits]


def _read_export(root: Path, export: Path) -> ReadExport:
    summary = json.loads(_read_verified(export / SUMMARY_MANIFEST))
    assert (root / summary["manifestFilesS3Key"]) == export / FILES_MANIFEST
    files = [json.loads(line) for line in _read_verified(export / FILES_MANIFEST).splitlines()]
    contents = [_lines(root, file) for file in files]
    assert summary["itemCount"] == sum(map(len, contents))
    member = "Item" if summary["exportType"] == "FULL_EXPORT" else "NewImage"
    images = [json.loads(line)[member] for lines in contents for line in lines]
    return ReadExport(summary, files, [(int(image["server"]["N"]), int(image["session"]["N"])) for image in images])


def _lines(root: Path, file: dict[str, Any]) -> list[bytes]:
    content = (root / file["dataFileS3Key"]).read_bytes()
    md5 = hashlib.md5(content).digest()
    assert (file["md5Checksum"], file["etag"]) == (base64.b64encode(md5).decode(), md5.hex())
    lines = gzip.decompress(content).splitlines()
    assert file["itemCount"] == len(lines)
    return lines


def _read_verified(manifest: Path) -> bytes:
    content = manifest.read_bytes()
    expected = base64.b64decode(manifest.with_suffix(".checksum").read_bytes())
    assert hashlib.md5(content).digest() == expected
    return content
