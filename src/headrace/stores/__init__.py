"""Stores: one contract, several drivers; open one with `headrace.stores.open.open_store`."""
