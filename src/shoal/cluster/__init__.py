"""The cluster port: how objects are read, watched and written, wherever they live.

`port` says what a home of objects must do, `errors` how it refuses, `resources` which collections there are.
The homes are packages beside them. Nobody above the port asks which home it speaks to.
"""
