"""How fast this machine trains: `idqn bench`. A population as a whole, and its parts alone."""
