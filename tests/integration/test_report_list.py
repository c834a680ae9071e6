"""The list and the groups in the report are those of `match` and `cluster`."""

from __future__ import annotations

from pathlib import Path

from pairsieve.library.export import write_report
from pairsieve.library.matches import find_clusters, find_matches
from pairsieve.report.listed import listed
from synthetic_task import begin, synthetic_task
from web_campaign import finished_records


def test_the_report_has_the_list_the_groups_and_what_made_a_doubtful_score(
    tmp_path: Path, tiny_encoder: Path
) -> None:
    campaign = finished_records(tmp_path, tiny_encoder)
    found = listed(campaign)
    assert found is not None
    assert found.matches == len(find_matches(campaign)) > 0
    sizes = find_clusters(campaign).to_pandas()["cluster"].value_counts().value_counts()
    assert found.sizes == {int(size): int(count) for size, count in sizes.items() if size > 1}
    assert found.groups == sum(found.sizes.values())
    page = write_report(campaign).page.read_text(encoding="utf-8")
    assert f"lists {found.matches:,} pairs of all" in page and f"makes {found.groups:,} groups" in page
    assert page.count("Log-odds ") == len(found.doubtful) > 0
    for pair in found.doubtful:
        assert pair.steps[0].name == "start"


def test_two_collections_have_a_list_and_no_groups(tmp_path: Path, tiny_encoder: Path) -> None:
    task = synthetic_task(tmp_path / "task", two=True)
    campaign = begin(tmp_path / "campaign", task, tiny_encoder, rounds=1, measure_splits=())
    campaign.run()
    found = listed(campaign)
    assert found is not None and found.groups == 0 and not found.sizes
    assert found.matches == len(find_matches(campaign, split="train", f1=True))
