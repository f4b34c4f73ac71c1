"""Arguments of users, checked: a wrong one gives one clear error with the value and the remedy."""
