"""Objects as people like to read about them: how they stand, and what happened to them.

One module for each family of kinds says what is worth telling of it; everything else is told field by field.
"""
