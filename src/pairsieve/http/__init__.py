"""What the labelling page and the matching service share: access control, error responses, the server.

access.py   host and token checks, throttling of wrong tokens, request limits, security headers
proxy.py    a TLS proxy in front            connections.py   limits on connections
errors.py   JSON error responses            server.py        bind a socket and run uvicorn on it
"""
