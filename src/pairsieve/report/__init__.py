"""What would people rather look at than read? Plots, made from figures, never from models."""
