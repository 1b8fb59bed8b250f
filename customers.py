import json
import subprocess
import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

LOCAL = json.loads(subprocess.check_output([".venv/bin/frazil", "local", "status", "--json"]))
BROKER = {"bootstrap.servers": LOCAL["bootstrap_servers"]}

admin = AdminClient(BROKER)
if "customers" not in admin.list_topics(timeout=10).topics:
    admin.create_topics([NewTopic("customers", num_partitions=2)])["customers"].result()

producer = Producer(BROKER)
for record in sys.argv[1:]:
    key, _, city = record.partition("=")
    producer.produce("customers", json.dumps({"city": city}) if city else None, key)
producer.flush()
print(f"{len(sys.argv[1:])} records written")
