"""Options that several commands share."""

from __future__ import annotations

from typer import Argument, Option

FOLDER = Argument(..., help="The campaign folder.")
JSON = Option(False, "--json", help="Print as JSON.")
CACHE = Option(None, "--cache", envvar="PAIRSIEVE_CACHE", help="Folder of embeddings that campaigns share.")
DISTRIBUTED = Option(
    None,
    "--distributed",
    help="Where to scan pairs: gpus (all of this machine), or a Ray cluster: local, auto, host:port.",
)
HOST = Option("127.0.0.1", "--host", help="Address to listen on; needs --token if others can reach it.")
PORT = Option(0, "--port", min=0, max=65535, help="Port; 0 takes any free one.")
PUBLIC_URL = Option(
    "", "--public-url", envvar="PAIRSIEVE_PUBLIC_URL", help="Address of the TLS proxy in front: https://HOST."
)
TRUSTED_PROXY = Option(
    [],
    "--trusted-proxy",
    help="Address or network of a proxy whose forwarded headers count; repeatable. "
    "[with --public-url: this machine]",
)
ADDRESS_JSON = Option(False, "--json", help="Print the address as JSON.")
FIGURES_JSON = Option(False, "--json", help="Print the figures as JSON.")
DEVICE = Option("auto", "--device", help="Where to compute: auto, cpu or cuda.")
