"""Who thinks: recipes, models, and later other agents' command lines."""
