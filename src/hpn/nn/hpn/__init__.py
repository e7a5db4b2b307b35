"""The paper's network: neighbours, extractors, three levels of prototypes, and the loss."""
