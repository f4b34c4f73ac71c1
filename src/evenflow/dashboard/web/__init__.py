"""The live page served: what follows a log or a cluster, the routes, who may see them, and the thread of the server."""
