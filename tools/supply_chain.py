"""What an installation is made of: hashes of the pinned packages, an SBOM, and a table of licences.

python tools/supply_chain.py hashes    download what constraints.txt pins, write requirements-hashed.txt
python tools/supply_chain.py sbom      the installed packages as CycloneDX 1.5 JSON, on stdout
python tools/supply_chain.py licences  the installed packages that pairsieve needs, as a Markdown table
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HASHED = "requirements-hashed.txt"
PLATFORM = f"{platform.system()} {platform.machine()}, Python {sys.version_info[0]}.{sys.version_info[1]}"
ABOUT = f"# For {PLATFORM}; made by: python tools/supply_chain.py hashes"
EXTRAS = "web,model,postgres,onnx,distributed"  # what runs; tests and checks are not part of a service


def normal(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hashed_lines(files: Iterable[Path]) -> list[str]:
    """One requirement a package, pinned, with the sha256 of each of its files."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(files):
        stem = file.name.removesuffix(".tar.gz").split("-")
        name, version = (stem[0], stem[1]) if file.suffix == ".whl" else ("-".join(stem[:-1]), stem[-1])
        public = version.partition("+")[0]  # a build such as +cpu is told by its hash, not by its version
        found[f"{normal(name)}=={public}"].append(hashlib.sha256(file.read_bytes()).hexdigest())
    return [f"{pin} " + " ".join(f"--hash=sha256:{each}" for each in hashes) for pin, hashes in found.items()]


def write_hashes() -> None:
    """Download the pinned packages for this platform and write their hashes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--dest", folder]
        wanted = f"{ROOT}[{EXTRAS}]"
        subprocess.run([*command, "--constraint", str(ROOT / "constraints.txt"), wanted], check=True)
        ours = ("pairsieve-",)
        files = [file for file in Path(folder).iterdir() if not file.name.startswith(ours)]
        lines = hashed_lines(files)
    (ROOT / HASHED).write_text("\n".join([ABOUT, *lines]) + "\n", encoding="utf-8")
    print(
        f"{HASHED}: {len(lines)} packages. Install with: pip install --require-hashes --no-deps -r {HASHED}"
    )


def needed(root: str, extras: str = EXTRAS) -> list[Distribution]:
    """The installed packages that a package needs, directly or not, by name."""
    from packaging.requirements import Requirement

    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, str]] = [(root, extra) for extra in ("", *extras.split(","))]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (normal(name), extra) in seen:
            continue
        seen.add((normal(name), extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # of another platform
        found[normal(name)] = package
        for line in package.requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                waiting += [(requirement.name, each) for each in ("", *requirement.extras)]
    return [found[name] for name in sorted(found)]


def licence_of(package: Distribution) -> str:
    """The licence that a package states: an SPDX expression, a classifier, or its own words, in short."""
    about = package.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    stated = [each for each in about.get_all("Classifier") or [] if each.startswith("License :: ")]
    named = [each.rpartition(" :: ")[2] for each in stated if not each.endswith("OSI Approved")]
    if named:
        return ", ".join(named)
    words = (about.get("License") or "").strip().splitlines()
    return words[0][:60] if words else "not stated"


def licences() -> str:
    """A Markdown table of what pairsieve needs."""
    rows = ["| package | version | licence |", "| --- | --- | --- |"]
    for package in needed("pairsieve"):
        if normal(package.metadata["Name"]) != "pairsieve":
            rows.append(f"| {package.metadata['Name']} | {package.version} | {licence_of(package)} |")
    return "\n".join(rows)


def sbom() -> dict[str, Any]:
    """The installed packages as a CycloneDX document."""
    components = [
        {
            "type": "library",
            "name": package.metadata["Name"],
            "version": package.version,
            "purl": f"pkg:pypi/{normal(package.metadata['Name'])}@{package.version}",
            "licenses": [{"license": {"name": licence_of(package)}}],
        }
        for package in sorted(distributions(), key=lambda each: normal(each.metadata["Name"]))
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": {"type": "application", "name": "pairsieve"},
        },
        "components": components,
    }


if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "hashes":
        write_hashes()
    elif command == "sbom":
        print(json.dumps(sbom(), indent=1))
    elif command == "licences":
        print(licences())
    else:
        sys.exit((__doc__ or "").strip())
