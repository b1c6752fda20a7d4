"""The pages that people read, and their templates."""
