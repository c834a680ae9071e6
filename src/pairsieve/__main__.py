"""`python -m pairsieve` is the command line."""

from pairsieve.cli import main

main()
