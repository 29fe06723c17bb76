-- Let one connection at a time see to the mark.
LOCK TABLE alive IN SHARE ROW EXCLUSIVE MODE
