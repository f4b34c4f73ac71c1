"""The files of an event log: pieces that are written in turn, what each begins with, and how they are read as one."""
