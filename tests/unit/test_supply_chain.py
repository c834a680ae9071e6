"""Hashes, SBOM and licences of what an installation is made of."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

pytest.importorskip("packaging")
from tools.supply_chain import HASHED, ROOT, hashed_lines, licence_of, licences, needed, normal, sbom


def test_a_package_is_pinned_with_the_hash_of_each_of_its_files(tmp_path: Path) -> None:
    for name in ("Some_Package-1.0-py3-none-any.whl", "some_package-1.0.tar.gz", "other-2.1.tar.gz"):
        (tmp_path / name).write_text(name)
    other, some = sorted(hashed_lines(tmp_path.iterdir()))
    assert other == f"other==2.1 --hash=sha256:{hashlib.sha256(b'other-2.1.tar.gz').hexdigest()}"
    assert some.startswith("some-package==1.0 ") and some.count("--hash=sha256:") == 2


def test_a_build_is_pinned_by_its_hash_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "torch-2.0+cpu-cp311-cp311-linux_x86_64.whl").write_text("wheel")
    assert hashed_lines(tmp_path.iterdir())[0].startswith("torch==2.0 --hash=sha256:")


def test_the_committed_hashes_are_of_the_pinned_versions_and_of_all_that_is_needed() -> None:
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned = {normal(name): version for name, version in pinned.items()}
    lines = [line for line in (ROOT / HASHED).read_text().splitlines() if not line.startswith("#")]
    hashed = dict(line.split(" ")[0].split("==") for line in lines)
    assert all(re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    assert hashed == {name: pinned[name] for name in hashed}, "make them again: tools/supply_chain.py hashes"
    wanted = {normal(package.metadata["Name"]) for package in needed("pairsieve")} - {"pairsieve"}
    assert wanted <= hashed.keys()


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
