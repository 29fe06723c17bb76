-- Wait for all who have read a queue, and keep others from reading any until this transaction ends.
LOCK TABLE queue IN ACCESS EXCLUSIVE MODE;
