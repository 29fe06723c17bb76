"""Finds, lists, searches and shows what a store holds, as typed results that commands and services print as JSON."""
