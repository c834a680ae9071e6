"""The matching service: which earlier texts match a text, by a scorer, from Python or over HTTP.

service.py   `Service`: match, add, remove, reload; one worker gathers what waits into batches
opening.py   a campaign or an exported scorer becomes a scorer, a collection and its embeddings
index.py     exact search by the scorer                held.py      held texts, their exact neighbours
reranking.py the re-ranker's logits of a query         candidates.py held texts' candidate partners
record.py    additions and removals, kept on disk      queue.py     what waits, how much may wait
loading.py   what a service answers by                 of_sources.py texts of one source are no pair
checks.py    texts and keys that are refused
app.py       the HTTP application; metrics.py, guide.py

with Service.open(Path("mine")) as service:
    service.add("q-17", "How do I change my password?")
    best = service.match("I want a new password", count=3)
"""

from pairsieve.serving.index import Match
from pairsieve.serving.queue import Busy
from pairsieve.serving.service import Answer, Service, UnknownKey, Unreadable

__all__ = ["Answer", "Busy", "Match", "Service", "UnknownKey", "Unreadable"]
