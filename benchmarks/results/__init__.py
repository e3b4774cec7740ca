"""What became of measuring.

statistics   medians and how far figures spread
latencies    histograms
record       a run as JSON
table        a run on the terminal
"""
