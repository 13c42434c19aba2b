"""`python -m hloenv TOOL`: HloEnv's command-line tools."""
import sys

from hloenv.tools import main

if __name__ == "__main__":
  sys.exit(main())
