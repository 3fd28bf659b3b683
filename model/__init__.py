"""The drop-in transformer, its routes and ops."""
