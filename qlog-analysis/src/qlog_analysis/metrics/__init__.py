"""Numbers and series from tables, and the definition of every metric."""
