"""A disk of a few MiB that a test can fill and empty: a tmpfs, which only root may mount."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """`folder` lies on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no room at all."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def protect(self) -> None:
        """Nothing can be written from now on, not even by root."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True, capture_output=True)


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount one at `folder`; skips, with the reason, where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here ({error})")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
