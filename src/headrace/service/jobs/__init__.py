"""Operations on jobs, claims and leases."""
