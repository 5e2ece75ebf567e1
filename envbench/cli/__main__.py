"""`python -m envbench.cli`: the command line without its script on the path."""

from envbench.cli import main

main()
