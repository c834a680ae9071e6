"""Prometheus metrics of the matching service, read at /metrics."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from pairsieve.http.access import App, Message, Receive, Scope, Send
from pairsieve.serving.service import BatchDone, Service

REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
BATCH_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Meter:
    """ASGI middleware around everything, refusals too: requests, their seconds, the worker's batches."""

    def __init__(self, app: App, service: Service) -> None:
        self._app = app
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter = partial(Counter, namespace="pairsieve", registry=registry)
        gauge = partial(Gauge, namespace="pairsieve", registry=registry)
        histogram = partial(Histogram, namespace="pairsieve", registry=registry)
        self._requests = counter("requests", "Requests answered.", ["method", "path", "status"])
        self._changes = counter("changes", "Texts added, replaced or removed.")
        self._seconds = histogram(
            "request_seconds", "From a request to its answer.", ["path"], buckets=REQUEST_SECONDS
        )
        self._texts = histogram("batch_texts", "Texts embedded together.", buckets=BATCH_TEXTS)
        self._phases = histogram(
            "batch_seconds", "Seconds of a batch, by phase.", ["phase"], buckets=BATCH_SECONDS
        )
        gauge("texts", "Texts that can be found.").set_function(lambda: len(service))
        gauge("waiting_texts", "Texts that wait for the encoder.").set_function(lambda: service.queue.waiting)
        gauge("most_waiting_texts", "Texts that may wait.").set(service.queue.most_waiting)
        service.note = self._batch

    def read(self) -> tuple[bytes, str]:
        """The metrics and their content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _batch(self, done: BatchDone) -> None:
        self._texts.observe(done.texts)
        self._changes.inc(done.changes)
        for phase, seconds in done.seconds.items():
            self._phases.labels(phase).observe(seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if scope["type"] == "http":
                self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        # The path as declared, so that a key or an unknown path does not become a series of its own.
        route: Any = scope.get("route")
        path = str(getattr(route, "path", "other")).replace(":path}", "}")
        method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE") else "other"
        self._requests.labels(method, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)
