"""A diff of vLLM's Python files, and a private copy of vLLM that has it. Nothing of vLLM is imported here."""
