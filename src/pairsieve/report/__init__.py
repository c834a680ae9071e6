"""What would people rather look at than read? Plots, and a campaign as one page.

`facts.py` gathers what is to be told (with `people.py` and `origin.py`), `pictures.py` draws it, `page.py`
writes it; `plots.py` has the plots of other commands.
"""
