"""What Shoal serves over HTTP beside the objects themselves."""
