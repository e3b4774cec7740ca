"""The worker: ``python -m benchmarks.load``, told what to do by lines of JSON."""

from .worker import main

main()
