"""The report of a campaign as one HTML page, and the plots of other commands.

`facts.py` gathers what is shown (with `people.py` and `origin.py`), `pictures.py` draws it, `page.py`
writes it; `plots.py` has the plots of other commands.
"""
