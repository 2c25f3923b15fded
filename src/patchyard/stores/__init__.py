"""Where events, blobs and settings lie."""
