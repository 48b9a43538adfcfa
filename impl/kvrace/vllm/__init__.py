"""Everything that touches vLLM. No other package of kvrace imports it."""
