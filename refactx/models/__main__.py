"""`python -m refactx.models`: print the folder of the demo model, and make it first if it is missing."""

import argparse
import sys

from refactx.errors import ModelError
from refactx.models.loading import demo_model_folder

argparse.ArgumentParser(prog="python -m refactx.models", description=__doc__).parse_args()
try:
    print(demo_model_folder())
except ModelError as failure:
    sys.exit(f"error: {failure}")
