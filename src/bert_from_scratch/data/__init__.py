"""Text to ids to pairs to masks to `Batch`; never sees a layer.

Preparing needs no torch, batches do: import from the modules themselves.
"""
