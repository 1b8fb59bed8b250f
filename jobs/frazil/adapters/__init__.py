"""The only places that talk to the outside world, one file for each thing out there."""
