"""The isolation battery: attacks as data, tried behind walls and where nothing protects."""
