"""Hashes, SBOM and licences of what an installation is made of."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

pytest.importorskip("packaging")
from tools.supply_chain import hashed_lines, licence_of, licences, needed, sbom


def test_a_package_is_pinned_with_the_hash_of_each_of_its_files(tmp_path: Path) -> None:
    for name in ("Some_Package-1.0-py3-none-any.whl", "some_package-1.0.tar.gz", "other-2.1.tar.gz"):
        (tmp_path / name).write_text(name)
    other, some = sorted(hashed_lines(tmp_path.iterdir()))
    assert other == f"other==2.1 --hash=sha256:{hashlib.sha256(b'other-2.1.tar.gz').hexdigest()}"
    assert some.startswith("some-package==1.0 ") and some.count("--hash=sha256:") == 2


def test_everything_that_is_imported_is_in_the_table_and_tests_are_not() -> None:
    names = {package.metadata["Name"].lower() for package in needed("pairsieve")}
    assert {"numpy", "torch", "transformers", "sqlalchemy", "fastapi", "uvicorn", "starlette"} <= names
    assert not {"pytest", "schemathesis", "ruff"} & names
    assert "| numpy |" in licences()
    assert licence_of(next(p for p in needed("pairsieve") if p.metadata["Name"] == "numpy")) != "not stated"


def test_the_sbom_names_every_package_once() -> None:
    components = sbom()["components"]
    urls = [each["purl"] for each in components]
    assert len(urls) == len(set(urls)) and any(url.startswith("pkg:pypi/torch@") for url in urls)
