"""Two kinds of tables unlike every benchmark, with their truth: devices of hospitals and recordings.

Nothing was chosen by how the product fares on them.
"""

from __future__ import annotations

import numpy as np

Columns = dict[str, list[str]]
_KINDS = ("infusion pump", "ventilator", "patient monitor", "defibrillator", "ultrasound", "syringe driver")
_MAKERS = ("Halden", "Brüning", "Ostra", "Medivex", "Kallio", "Normed", "Tessera", "Ruuska")
_WARDS = ("ICU", "Cardiology", "Emergency", "Theatre 2", "Theatre 5", "Neonatal", "Oncology", "Store")
_WORDS = (
    *("night", "river", "gold", "paper", "window", "summer", "stone", "blue", "ghost", "engine"),
    *("winter", "mirror", "dancing", "empty", "garden", "fire", "silver", "telephone", "stranger", "harbour"),
    *("running", "heart", "midnight", "glass", "mountain", "letter", "thunder", "velvet", "city", "rain"),
)
_NAMES = (
    *("Mara Lund", "The Paper Kites", "DJ Oslo", "Ana Reyes"),
    *("Kofi Mensah", "Low Tide", "Nils & Vera", "Rosa Blum"),
)
_SPELT = {
    "ultrasound": "US scanner",
    "ventilator": "vent.",
    "patient monitor": "monitor",
    "syringe driver": "",
}


def devices(records: int, seed: int) -> tuple[Columns, list[int]]:
    """Two registers in one table with different columns filled: most values are missing, serials mistyped.

    -> columns, and the device of each record. A third of the devices stand in both registers; pumps of one
    ward are alike but for their serials.
    """
    rng = np.random.default_rng(seed)
    columns: Columns = {name: [] for name in ("kind", "maker", "model", "serial", "asset", "ward", "bought")}
    entity: list[int] = []
    device = 0
    while len(entity) < records:
        kind, maker = str(rng.choice(_KINDS)), str(rng.choice(_MAKERS))
        model = f"{maker[:2].upper()}{rng.integers(1, 9)}00"
        serial = f"{rng.integers(10, 99)}-{rng.integers(0, 10**6):06d}"
        ward, year = str(rng.choice(_WARDS)), str(rng.integers(2009, 2026))
        asset = f"A{rng.integers(0, 10**5):05d}"
        first = [kind, maker, model, serial, asset, ward, year]
        shown = rng.random(7) < (0.9, 0.5, 0.5, 0.7, 0.6, 0.4, 0.3)
        _add(columns, [value if show else "" for value, show in zip(first, shown)])
        entity.append(device)
        if rng.random() < 0.5 and len(entity) < records:
            typed = serial.replace("-", "") if rng.random() < 0.5 else serial
            if rng.random() < 0.2:
                at = int(rng.integers(len(typed)))
                typed = typed[:at] + str(rng.integers(10)) + typed[at + 1 :]
            moved = str(rng.choice(_WARDS)) if rng.random() < 0.3 else ward
            second = [_SPELT.get(kind, kind), maker, f"{maker} {model}", f"SN{typed}", asset, moved, year]
            shown = rng.random(7) < (0.5, 0.4, 0.6, 0.85, 0.3, 0.5, 0.3)
            _add(columns, [value if show else "" for value, show in zip(second, shown)])
            entity.append(device)
        device += 1
    return columns, entity


def songs(records: int, seed: int) -> tuple[Columns, list[int]]:
    """Recordings with featured artists, lengths in two units and versions: a live version is another one."""
    rng = np.random.default_rng(seed)
    columns: Columns = {name: [] for name in ("title", "artist", "length", "year", "album")}
    entity: list[int] = []
    recording = 0
    while len(entity) < records:
        title = " ".join(str(word) for word in rng.choice(_WORDS, rng.integers(1, 4))).title()
        artist, guest = (str(name) for name in rng.choice(_NAMES, 2, replace=False))
        album, year = " ".join(rng.choice(_WORDS, 2)).title(), int(rng.integers(1985, 2025))
        for version in ("", "Live", "Remix")[: int(rng.choice([1, 1, 1, 2, 3]))]:
            seconds, featured = int(rng.integers(120, 420)), bool(rng.random() < 0.4)
            for _ in range(int(rng.choice([1, 1, 2, 2, 3]))):
                if len(entity) == records:
                    break
                away = seconds + int(rng.integers(-2, 3))
                named, by = title, artist
                if featured and rng.random() < 0.8:
                    mark = f"{rng.choice(['feat.', 'ft.', 'with'])} {guest}"
                    named, by = (
                        (f"{title} ({mark})", artist) if rng.random() < 0.5 else (title, f"{artist} {mark}")
                    )
                if version:
                    named += f" ({version})" if rng.random() < 0.6 else f" - {version} {year}"
                if rng.random() < 0.15:
                    named = named.lower()
                length = f"{away // 60}:{away % 60:02d}" if rng.random() < 0.5 else f"{away} s"
                values = [named, by, length, str(year + int(rng.random() < 0.1)), album]
                shown = rng.random(5) < (1.0, 0.9, 0.7, 0.6, 0.5)
                _add(columns, [value if show else "" for value, show in zip(values, shown)])
                entity.append(recording)
            recording += 1
    return columns, entity


def _add(columns: Columns, values: list[str]) -> None:
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)
