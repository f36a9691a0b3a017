"""`python -m refactx.models`: print the folder of the demo model, and make it first if it is missing."""

import sys

from refactx.errors import ModelError
from refactx.models.loading import demo_model_folder

try:
    print(demo_model_folder())
except ModelError as failure:
    sys.exit(f"error: {failure}")
