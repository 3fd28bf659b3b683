"""What people look at: one file a report. Each is a function from rows to a text."""
