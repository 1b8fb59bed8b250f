"""The double of AWS that `frazil local up`, the tests and `deploy.sh --profile=local` share.

It is moto's server with corrections, one file per service; the file's docstring gives the reason. EMR Serverless is
implemented here, without moto: StartJobRun runs the job. Job logs and the call record are files; all other state is in
memory and lost when the process ends. Permissions are recorded (`call_record.py`) but not enforced.
"""
