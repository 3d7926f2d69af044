"""gunicorn's settings, the same in the demo and in containers: `gunicorn -c python:console.gunicorn …`."""

from console import env, logs

worker_class = "gthread"
control_socket_disable = True
logconfig_dict = logs.logging_config(env.load_env().log_format)
