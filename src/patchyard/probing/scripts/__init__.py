"""What attacks run, inside and as control: standard library only, Python 3.8 and newer.

Sent as text, so that a place needs nothing but a Python; never imported by the engine.
"""
