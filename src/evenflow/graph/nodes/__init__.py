"""The nodes of graphs: what runs on workers."""
