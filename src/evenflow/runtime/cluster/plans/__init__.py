"""How the verbs of a cluster become part of a plan of Spark's."""
