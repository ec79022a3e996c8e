"""Stand-ins for engines, shipped beside the real ones so that anybody's tests can use them."""
