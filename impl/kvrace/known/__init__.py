"""What is known of released vLLMs, as data: results of kvrace's own runs, and what was read in the sources of connectors.

Nothing here imports vLLM.
"""
