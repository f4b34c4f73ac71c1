"""What users call: the cluster, its verbs, their arguments, and the Spark jobs that workers are."""
