"""Campaigns: rounds of choose → ask → train → measure in one folder, in which a run can always go on.

    DIR/campaign.toml     the settings          DIR/artifacts/   selections, models, embeddings
    DIR/ledger.sqlite     questions, answers    DIR/rounds/      the figures of each round

`creating.py` makes the folder and refuses settings that cannot work, `loop.py` does the rounds,
`selecting.py` chooses their pairs, `questions.py` has what else is asked or need not be, `figures.py` keeps
what was measured.
"""

from pairsieve.campaign.creating import create_campaign
from pairsieve.campaign.figures import round_line
from pairsieve.campaign.loop import Campaign, Step, next_step

__all__ = ["Campaign", "Step", "create_campaign", "next_step", "round_line"]
