"""First Story Detection: from texts to vectors, keys and alarms (cep §4)."""
