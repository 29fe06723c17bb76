"""Operations on feeds and their items."""
