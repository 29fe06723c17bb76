"""Operations on dead letters."""
