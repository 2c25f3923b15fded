"""Wire formats, one a file, and wrappers around them."""
