"""Handlers that show a result. Each renders what :mod:`kvrace.result` or :mod:`kvrace.replay` holds; none computes a verdict."""
