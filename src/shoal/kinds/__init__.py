"""Job kinds: one package for each, behind one interface."""
