"""The use cases: async, knowing only domain and contracts."""
