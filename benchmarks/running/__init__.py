"""Which process runs when, and on which core.

cores    where servers and generators run
workers  the processes that generate load
rounds   A B A B: in each round every contender is started anew, and each workload is measured of all in turn
"""
