"""Write offset ranges to unpublished data files: fetch → decode → write, inside Spark tasks."""
