"""The labelling page and the live dashboard of a campaign, for one or several people in a browser.

    session.py        who gets which pair next; answers, undo, skip, adjudication
    answer_cache.py   questions and standing answers in memory, read from the ledger
    disagreements.py  the queue of pairs on which answers disagree or contradict each other
    rounds.py         a process of its own that trains when a round's answers are in, and asks the next round
    predictions.py    the latest model's probabilities (written by that process)
    dashboard.py      the figures of the dashboard     guideline.py   what counts as a match
    records.py        two records column by column
    app.py            the HTTP API                     assets/        the pages

The pages are plain HTML, CSS and JavaScript inside the package: nothing is fetched from elsewhere.
"""

from pairsieve.web.session import LabellingSession

__all__ = ["LabellingSession"]
