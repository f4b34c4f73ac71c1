"""The windows of rules, and aggregates over them."""
