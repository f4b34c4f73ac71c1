"""The evidence for Evenflow: measured runs, torture, and the papers' claims beside ours. No part of the product."""
