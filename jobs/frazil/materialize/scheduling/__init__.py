"""Many tables in one process, each on its own trigger."""
