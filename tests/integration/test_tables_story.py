"""From a frame in memory to a list, the input table with groups, and merged records; sources kept apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import pairsieve as ps

pd = pytest.importorskip("pandas", reason="pandas is not installed")
WORDS = ("red", "blue", "old", "small", "north", "south", "river", "stone", "iron", "glass", "west", "east")


@pytest.fixture(scope="module")
def places(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ps.Campaign]:
    rows = [
        {
            "id": f"{shop}{n}",
            "name": f"{WORDS[n % 12]} {WORDS[n * 5 % 11]} {n}{extra}",
            "price": n,
            "shop": shop,
        }
        for n in range(24)
        for shop, extra in (("a", ""), ("b", " shop"))
    ]
    frame = pd.DataFrame(rows)
    known = pd.DataFrame(
        {"id1": [f"a{n}" for n in range(24)], "id2": [f"b{n}" for n in range(24)], "label": 1}
    )
    task = ps.task_from_tables(frame, key="id", text=["name"], source="shop", matches=known, split="none")
    folder = tmp_path_factory.mktemp("places") / "campaign"
    campaign = ps.create_campaign(
        folder, task, labels=40, rounds=2, encoder=str(tiny_encoder), device="cpu", reranker="off"
    )
    assert campaign.run().name == "finished"
    return frame, campaign


def test_a_task_in_memory_is_kept_with_its_campaign(places: tuple[object, ps.Campaign]) -> None:
    _, campaign = places
    assert (campaign.folder / "task" / "task.json").is_file()
    again = ps.open_campaign(campaign.folder)
    assert again.task.fingerprint == campaign.task.fingerprint and again.run().name == "finished"


def test_pairs_within_a_source_are_never_asked_nor_listed(places: tuple[object, ps.Campaign]) -> None:
    _, campaign = places
    ids, _ = campaign.ledger.labels()
    assert len(ids) and campaign.split.space.contains(ids).all()
    for more in ({}, {"f1": True}, {"count": 300}):
        listed = ps.find_matches(campaign, **more).to_pandas()
        assert len(listed) and (listed["left_shop"] != listed["right_shop"]).all(), more
    assert {"left_name", "right_name", "left_price"} <= set(listed.columns)


def test_the_input_table_comes_back_with_groups_and_merged(places: tuple[object, ps.Campaign]) -> None:
    frame, campaign = places
    table = ps.find_clusters(campaign, table=True).to_pandas()
    assert list(table.columns) == ["id", "name", "price", "shop", "cluster", "size", "representative"]
    pd.testing.assert_frame_equal(table[["id", "name", "price", "shop"]], frame, check_dtype=False)
    assert not table.duplicated(["cluster", "shop"]).any(), "a group holds one row of a source"
    out = campaign.folder / "merged.parquet"
    groups = ps.find_clusters(campaign, out, merge=["longest", "price=source-order"], source_order=["b"])
    merged = groups.to_pandas()
    assert len(merged) == len(groups) == table["cluster"].nunique()
    pairs = merged[merged["size"] == 2]
    assert len(pairs) and pairs["name"].str.endswith("shop").all()
