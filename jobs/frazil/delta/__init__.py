"""From an Iceberg snapshot to the next version of the Delta log over the same files. Pure: values in, values out."""
