"""How do people label, together, in a browser? The labelling page and the live dashboard of a campaign.

    board.py      who has said what so far, in memory, read from the ledger
    desk.py       who gets which pair next; answers, undo, skip, decisions
    rounds.py     when a round's answers are in, a process of its own trains and asks the next round
    opinions.py   what the latest model thinks (in that process)
    decisions.py  what waits to be decided          dashboard.py  the figures of the dashboard
    guideline.py  what counts as a match            safety.py     who may come in, and with what
    app.py        the HTTP door                     assets/       the pages

The pages are plain HTML, CSS and JavaScript inside the package: nothing is fetched from elsewhere.
"""

from pairsieve.web.desk import Desk

__all__ = ["Desk"]
