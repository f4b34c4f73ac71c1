"""The text of rules: grammar, parser, syntax tree, errors with their place."""
