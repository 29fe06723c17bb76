"""The audit: does what a store holds follow from what its journal says?"""
