"""The lab: released vLLMs side by side, each as a folder of Python files, in the environment that kvrace runs in.

:func:`kvrace.lab.store.install` fetches a release, :func:`kvrace.lab.use.use` makes this process import it.
"""
