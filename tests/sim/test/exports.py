"""A simulated library exports exactly the names of its ABI table (and those given after it), all unversioned.

usage: exports.py LIBRARY TABLE.inc [NAME…]
"""
import re
import subprocess
import sys

library, table, *extra = sys.argv[1:]
wanted = set(re.findall(r"^GPUFENCE_\w+_EXPORT\((\w+)", open(table).read(), re.M)) | set(extra)
listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
found = {line.split()[-1] for line in listing.splitlines()}
missing, surplus = sorted(wanted - found), sorted(found - wanted)
if not wanted or missing or surplus:
    sys.exit(f"{library}: missing {missing[:10]}, surplus {surplus[:10]}, {len(wanted)} wanted")
