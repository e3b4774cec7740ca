"""How fast this library is, beside others and beside what the machine allows: ``python -m benchmarks``.

environments    where other implementations are installed; the tests use it too
peers/          what is measured: servers and clients on each implementation, and floors
load/           what the load generator does with them; itself it is in `trio_mcp._bench`
workloads/      what is measured of them: one entry each
growth          how cost grows with how much there is
results/        what became of it: targets, plots, the page of results
"""
