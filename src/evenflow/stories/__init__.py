"""First Story Detection: texts to vectors, keys and alarms (cep §4)."""
