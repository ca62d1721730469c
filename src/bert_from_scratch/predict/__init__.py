"""Text in, answers out: no printing, no HTTP."""
