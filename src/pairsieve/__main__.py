"""`python -m pairsieve` and the command `pairsieve`: the command line."""

import os
import signal


def main() -> None:
    """Run the command line. A signal that comes while it is imported ends it without a traceback."""
    for kind in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(kind) is not signal.SIG_IGN:
            signal.signal(kind, lambda kind, _: os._exit(128 + kind))
    from pairsieve.cli import main as run

    run()


if __name__ == "__main__":
    main()
