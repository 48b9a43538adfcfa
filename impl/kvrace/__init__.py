"""kvrace: every order of abort, schedule, update and KV transfer, played on the real vLLM scheduler."""

__version__ = "0.1.0"
