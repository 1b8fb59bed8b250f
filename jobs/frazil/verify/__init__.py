"""The completeness proof: from the table alone, and record by record against what Kafka still has."""
