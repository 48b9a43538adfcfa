"""A small scheduler in tree, with vLLM's rules for KV blocks: for machines without vLLM, and to plant faults in."""
