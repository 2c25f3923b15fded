"""Gates that prove a result."""
