"""The report: one self-contained page with charts, drawn from the tables of a folder."""
