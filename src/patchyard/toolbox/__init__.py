"""The tool server that runs inside an environment: standard library only, Python 3.8 and newer."""
