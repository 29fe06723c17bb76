"""Tables made from the journal: one file and one pure function each."""
