"""The formal model behind kvrace: events, world, contract, properties and explorer. Pure: no vLLM, no file, no process."""
