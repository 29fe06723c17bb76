"""Operations on queues, journals and the store."""
