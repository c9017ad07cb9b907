"""Makes the shared helpers of the Python suites (mpctest.py) importable: pytest
puts this folder on the path because this file is in it."""
