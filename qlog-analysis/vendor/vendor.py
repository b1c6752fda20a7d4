"""Puts the scripts that reports carry into the package, as package-lock.json pins them.

npm ci --ignore-scripts && python vendor.py
"""

import shutil
from pathlib import Path

HERE = Path(__file__).parent
FROM = HERE / "node_modules" / "uplot"
TO = HERE.parent / "src" / "qlog_analysis" / "reports" / "templates" / "vendor"
FILES = {
    "dist/uPlot.iife.min.js": "uplot.js",
    "dist/uPlot.min.css": "uplot.css",
    "LICENSE": "uplot.LICENSE",
}

if __name__ == "__main__":
    TO.mkdir(exist_ok=True)
    for source, name in FILES.items():
        shutil.copyfile(FROM / source, TO / name)
