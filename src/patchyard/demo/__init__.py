"""The bundled task of `agents demo`: a small project with a bug, and a script that mends it."""
