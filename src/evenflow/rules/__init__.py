"""The rule language: from the text of rules to a keyed operator (cep §2.1)."""
