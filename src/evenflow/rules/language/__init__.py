"""The text of rules: grammar, parser, syntax tree, and errors that show their place."""
