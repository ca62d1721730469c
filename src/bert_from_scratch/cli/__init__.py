"""The program `bert`: one small file a verb, and the only place that prints."""
