"""How fast this library is, beside others and beside what the machine allows: ``python -m benchmarks``.

environments    where other implementations are installed; the tests use it too
peers/          what is measured: servers and clients on each implementation, and floors
load/           the neutral load generator and the fixed server, in processes of their own
workloads/      what is measured of them: one entry each
running/        which process runs when, and on which core
results/        what became of it: statistics, JSON, tables, plots, verdicts, targets
"""
