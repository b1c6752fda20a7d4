"""From a file to tidy tables: compression, containers, dialects, events."""
