"""Internal.  What a pass decides: a pure function of what it read.

Frozen dataclasses in, a plan out; no Django, no clock, no input or output.
``snapshot`` is what a pass read, ``admission`` the ordered list of named predicates,
``plan`` the decision, ``due`` when the loop wakes again.
"""
