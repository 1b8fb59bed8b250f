"""One double of AWS for everybody: `frazil local up`, the tests, and `deploy.sh --profile=local`.

It is moto's server with what it lacks, one file a service with the reason in its docstring. EMR Serverless is a
service of its own here: StartJobRun really runs the job. Everything but the logs of jobs and the record of calls is
in memory and gone when the process ends; permissions are recorded (`call_record.py`), never enforced.
"""
