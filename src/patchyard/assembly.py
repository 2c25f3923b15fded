"""The only place that knows concrete classes: puts the engine together from settings."""
