#!/usr/bin/env python3
"""Lints charts/loadmaster and renders it.

Default values go to deploy/loadmaster.yaml, each file of charts/loadmaster/ci to tests/manifests/rendered.
Needs `pip install helm-python-sdk`; 0.2.2 was used.

Each file names the CRC-32 of the chart it was rendered from. A test compares it, so a changed chart that was
not rendered again fails the test, without Helm.
"""

import pathlib
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "charts/loadmaster"
RENDERED = ROOT / "tests/manifests/rendered"
RELEASE = {"name": "loadmaster", "namespace": "kube-system"}
# Helm installs in this order; kubectl takes the order of the file.
KINDS = [
    "PodDisruptionBudget", "ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding",
    "Service", "Pod", "Deployment",
]
# Labels that apply only to objects installed by Helm.
OF_HELM = ("helm.sh/chart:", "app.kubernetes.io/managed-by:")


def checksum():
    """CRC-32 over the names and contents of the chart's files, sorted by name."""
    crc = 0
    files = (path for path in CHART.rglob("*") if path.is_file())
    for name, path in sorted((path.relative_to(CHART).as_posix(), path) for path in files):
        crc = zlib.crc32(name.encode() + b"\0" + path.read_bytes(), crc)
    return f"{crc:08x}"


def lint(helm, values):
    """Ends the program on a finding; those of severity 1 are advice."""
    report = helm.lint(CHART, values, strict=True)
    findings = [f"{m['path']}: {m['error']}" for m in report["messages"] if m["severity"] > 1]
    if findings or report["errors"]:
        sys.exit("\n".join(findings + report["errors"]))


def kind(manifest):
    return next(line.split()[1] for line in manifest.splitlines() if line.startswith("kind:"))


def documents(rendered):
    """The manifests in the order of installation, without labels that name Helm."""
    files = [text.strip() for name, text in sorted(rendered.items()) if name.endswith(".yaml")]
    for text in sorted(filter(None, files), key=lambda text: KINDS.index(kind(text))):
        lines = text.splitlines(keepends=True)
        yield "".join(line for line in lines if not line.strip().startswith(OF_HELM)) + "\n"


def write(path, source, manifests):
    head = f"# {source}, rendered by deploy/render.py; do not edit.\n# Chart: {checksum()}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "".join(f"---\n{manifest}" for manifest in manifests))
    print(path.relative_to(ROOT))


def render(helm, chart, path, source, values, hooks):
    lint(helm, values)
    manifests = documents(chart.render(values, **RELEASE))
    write(path, source, [m for m in manifests if hooks or "helm.sh/hook:" not in m])


def main():
    try:
        import helm_python as helm
    except ImportError:
        sys.exit("the chart was not rendered: this needs `pip install helm-python-sdk`")
    with helm.Chart.load(CHART) as chart:
        source = "charts/loadmaster with its default values"
        render(helm, chart, ROOT / "deploy/loadmaster.yaml", source, {}, hooks=False)
        for file in sorted((CHART / "ci").glob("*-values.yaml")):
            values = helm.values_from_yaml(file.read_text())
            name = file.name.removesuffix("-values.yaml")
            source = f"charts/loadmaster with ci/{file.name}"
            render(helm, chart, RENDERED / f"{name}.yaml", source, values, hooks=True)


if __name__ == "__main__":
    main()
