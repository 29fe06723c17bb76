"""The Python data source behind `format("headrace")`."""
