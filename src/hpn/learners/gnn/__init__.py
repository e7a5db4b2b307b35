"""Graph neural networks that are trained step after step: fine-tuning, and what keeps it from forgetting."""
