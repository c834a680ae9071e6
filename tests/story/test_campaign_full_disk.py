"""A full disk while a campaign writes: refused in words, nothing half-written; run again it is the same."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pairsieve import artifacts
from pairsieve.campaign import Campaign
from pairsieve.errors import ArtifactError, LedgerError
from pairsieve.files import write_text
from pairsieve.models import CosineMatcher
from synthetic_task import begin, picture

pytestmark = pytest.mark.slow


def full_disk(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_an_artifact_is_written(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    begin(folder := tmp_path / "c", task, tiny_encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts.np, "save", full_disk)
        with pytest.raises(ArtifactError, match=r"the disk is full.*Nothing half-written is kept.*run again"):
            Campaign(folder).run()
    assert not list(folder.glob("artifacts/*/*"))
    Campaign(folder).run()
    assert picture(folder) == picture(finished["projection"])


def test_a_full_disk_while_a_model_is_written(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder, learner="full")
    real = CosineMatcher.save

    def half(self: CosineMatcher, place: Path) -> None:
        real(self, place)
        os.truncate(place / "model.safetensors", 1000)
        full_disk()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CosineMatcher, "save", half)
        with pytest.raises(ArtifactError, match="the disk is full"):
            Campaign(folder).run()
    assert not list(folder.glob("artifacts/model/*"))
    Campaign(folder).run()
    assert picture(folder) == picture(finished["full"])


def test_a_full_disk_while_figures_are_written(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder)
    real = write_text
    for word in ("selection-001", "round-001"):

        def refusing(path: Path, text: str, word: str = word) -> None:
            if word in path.name:
                full_disk()
            real(path, text)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pairsieve.campaign.figures.write_text", refusing)
            with pytest.raises(ArtifactError, match=rf"{word}.json: cannot be written \(No space left"):
                Campaign(folder).run()
    Campaign(folder).run()
    assert picture(folder) == picture(finished["projection"])


def test_a_full_disk_while_questions_are_written(
    task: Path, tiny_encoder: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    begin(folder, task, tiny_encoder).ledger.counts()  # the tables are there

    def no_room(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA max_page_count = 1").close()  # SQLite: no page beyond those there are

    sa.event.listen(sa.Engine, "connect", no_room)
    try:
        with pytest.raises(LedgerError, match=r"disk is full.*make room on the disk and run again"):
            Campaign(folder).run()
    finally:
        sa.event.remove(sa.Engine, "connect", no_room)
    for count in Campaign(folder).ledger.counts():  # what was written is whole
        assert count.asked in (20, 30, 45) and count.open in (0, count.asked)
    Campaign(folder).run()
    assert picture(folder) == picture(finished["projection"])
