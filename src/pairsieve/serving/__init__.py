"""Which earlier texts does a new text match? A trained matcher over a collection, from Python or over HTTP.

service.py   `Service`: match, add, remove; one worker gathers what waits into batches
opening.py   a campaign or an exported model becomes a matcher, a collection and its embeddings
index.py     exact search in a matrix that grows        record.py    additions and removals, kept on disk
queue.py     what waits, how much may wait              app.py       the HTTP door    metrics.py, guide.py

with Service.open(Path("mine")) as service:
    service.add("q-17", "How do I change my password?")
    best = service.match("I want a new password", count=3)
"""

from pairsieve.serving.index import Match
from pairsieve.serving.queue import Busy
from pairsieve.serving.service import Answer, Service, UnknownKey

__all__ = ["Answer", "Busy", "Match", "Service", "UnknownKey"]
