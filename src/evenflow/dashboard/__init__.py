"""The live page: from the entries of an event log to what is shown (pure), and the files of the page."""
