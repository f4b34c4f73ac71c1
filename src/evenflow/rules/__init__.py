"""The rule language: text to a keyed operator (cep §2.1)."""
