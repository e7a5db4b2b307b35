"""The benchmark suite: speed, memory and growth, measured in child processes and written to docs/benchmarks.

    python -m benchmarks.scale

``plan`` lists the cells, ``suite`` runs each in a process of its own and keeps what it gave, ``speeds``,
``growth``, ``commands`` and ``stores`` measure, ``asked``, ``page`` and ``plots`` tell.
"""
