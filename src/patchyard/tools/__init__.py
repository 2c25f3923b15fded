"""One tool a file; they act only through the toolbox they are given."""
