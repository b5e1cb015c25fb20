#!/usr/bin/env python3
"""Lints charts/loadmaster, renders it, and writes what is generated from it.

| File | Content |
|---|---|
| charts/loadmaster/values.schema.json | descriptions, from the comments of values.yaml |
| charts/loadmaster/README.md | the table of values |
| deploy/loadmaster.yaml | the chart with its default values |
| deploy/kustomize/base/objects.yaml | the same but for the ConfigMap |
| deploy/kustomize/base/config.yaml | the configuration in that ConfigMap |
| tests/manifests/rendered/NAME.yaml | the chart with charts/loadmaster/ci/NAME-values.yaml: the objects that differ |
| tests/manifests/next-version.yaml | the Deployment of the next version of the chart, with the same image |
| tests/manifests/refusals.txt | the message for each set of values in tests/manifests/refused.yaml |
| deploy/rendered.sum | CRC-32 of the chart and of each of these files |

A test compares the sums, so a changed chart that was not rendered again fails the test, without Helm.
`deploy/render.py --check` writes nothing and fails if a file is not up to date.

Needs `pip install helm-python-sdk`; 0.2.2 was used.
"""

import pathlib
import re
import shutil
import sys
import tempfile
import textwrap
import zlib

sys.dont_write_bytecode = True
import describe

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "charts/loadmaster"
REFUSED = ROOT / "tests/manifests/refused.yaml"
RENDERED = ROOT / "tests/manifests/rendered"
DEFAULT = "deploy/loadmaster.yaml"
SUMS = "deploy/rendered.sum"
# Helm installs in this order; kubectl takes the order of the file.
KINDS = [
    "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount", "ConfigMap", "CustomResourceDefinition", "ClusterRole",
    "ClusterRoleBinding",
    "Role", "RoleBinding", "Service", "Pod", "Deployment", "Certificate", "FlowSchema", "PodMonitor",
    "PriorityLevelConfiguration", "PrometheusRule", "ServiceMonitor",
]
# Labels that apply only to objects installed by Helm.
OF_HELM = ("helm.sh/chart:", "app.kubernetes.io/managed-by:")
# The annotation that replaces the pods of the chart after a change of the configuration.
CHECKSUM = re.compile(r" +annotations:\n +#.*\n +checksum/config: .*\n")
# Lines of a file of values that name the release.
RELEASE = re.compile(r"^# (name|namespace): (\S+)$", re.MULTILINE)


class Manifest:
    """One rendered object."""

    def __init__(self, text):
        lines = text.strip().splitlines()
        self.text = "\n".join(line for line in lines if not line.strip().startswith(OF_HELM)) + "\n"
        self.kind = next(line.split()[1] for line in lines if line.startswith("kind:"))
        self.name = next(line.split()[1] for line in lines if line.startswith("  name:"))
        self.is_hook = "helm.sh/hook:" in self.text

    def __str__(self):
        return f"{self.kind} {self.name}"


def render(helm, folder, values, name="loadmaster", namespace="kube-system"):
    """The manifests of a release in the order of installation."""
    report = helm.lint(folder, values, strict=True)
    # Findings of severity 1 are advice.
    findings = [f"{m['path']}: {m['error']}" for m in report["messages"] if m["severity"] > 1]
    if findings or report["errors"]:
        sys.exit("\n".join(findings + report["errors"]))
    with helm.Chart.load(folder) as chart:
        rendered = chart.render(values, name=name, namespace=namespace)
    files = [text for name, text in sorted(rendered.items()) if name.endswith(".yaml")]
    parts = [part for text in files for part in ("\n" + text).split("\n---\n")]
    manifests = [Manifest(part) for part in parts if "kind:" in part]
    return sorted(manifests, key=lambda manifest: KINDS.index(manifest.kind))


def document(source, manifests, same=()):
    """A file with these manifests; its head names those that are the same in the default rendering."""
    head = f"# {source}, rendered by deploy/render.py; do not edit.\n"
    head += "".join(f"# As in {DEFAULT}: {manifest}\n" for manifest in same)
    return head + "".join(f"---\n{manifest.text}" for manifest in manifests)


def kustomize(manifests):
    """The files of the base. Kustomize itself replaces the pods after a change of the configuration."""
    config = next(manifest for manifest in manifests if manifest.kind == "ConfigMap")
    _, text = config.text.split("  config.yaml: |\n")
    others = [manifest for manifest in manifests if manifest is not config]
    objects = document("charts/loadmaster with its default values", others)
    yield "deploy/kustomize/base/objects.yaml", CHECKSUM.sub("", objects)
    yield "deploy/kustomize/base/config.yaml", textwrap.dedent(text)


def difference(source, manifests, defaults):
    """A file with the manifests that differ from the default rendering."""
    known = {manifest.text for manifest in defaults}
    same = [manifest for manifest in manifests if manifest.text in known]
    return document(source, [manifest for manifest in manifests if manifest.text not in known], same)


def refusals(helm, folder):
    """The message for each set of refused values. Ends the program if one is accepted."""
    lines = []
    with helm.Chart.load(folder) as chart:
        for name, case in helm.values_from_yaml(REFUSED.read_text()).items():
            try:
                chart.render(case["values"], name="loadmaster", namespace="kube-system")
            except helm.HelmError as error:
                message = " ".join(str(error).split())
            else:
                sys.exit(f"refused.yaml, {name}: the chart accepts these values")
            if case["message"] not in message:
                sys.exit(f"refused.yaml, {name}: the message is\n  {message}\nand lacks\n  {case['message']}")
            lines.append(f"{name}: {message}\n")
    return "".join(lines)


def next_version(helm, folder):
    """The Deployment of a chart whose only change is its version."""
    copy = folder.parent / "next" / folder.name
    shutil.copytree(folder, copy)
    with helm.Chart.load(folder) as chart:
        version = chart.version
    metadata = (copy / "Chart.yaml").read_text()
    (copy / "Chart.yaml").write_text(metadata.replace(version, "99.0.0"))
    manifests = render(helm, copy, {"image": {"tag": version}})
    return [manifest for manifest in manifests if manifest.kind == "Deployment"]


def generated(helm, folder):
    """Path and content of every generated file, for a copy of the chart."""
    schema = describe.schema(*((folder / name).read_text() for name in ("values.schema.json", "values.yaml")))
    (folder / "values.schema.json").write_text(schema)
    yield "charts/loadmaster/values.schema.json", schema
    with helm.Chart.load(folder) as chart:
        table = describe.table(schema, chart.values)
    yield "charts/loadmaster/README.md", describe.between((folder / "README.md").read_text(), "values", table)
    defaults = [manifest for manifest in render(helm, folder, {}) if not manifest.is_hook]
    yield DEFAULT, document("charts/loadmaster with its default values", defaults)
    for file in sorted((folder / "ci").glob("*-values.yaml")):
        text = file.read_text()
        manifests = render(helm, folder, helm.values_from_yaml(text), **dict(RELEASE.findall(text)))
        name = file.name.removesuffix("-values.yaml")
        source = f"charts/loadmaster with ci/{file.name}"
        yield f"tests/manifests/rendered/{name}.yaml", difference(source, manifests, defaults)
    source = "charts/loadmaster in version 99.0.0 with the same image"
    yield "tests/manifests/next-version.yaml", document(source, next_version(helm, folder))
    yield "tests/manifests/refusals.txt", refusals(helm, folder)
    yield from kustomize(defaults)


def chart_sum():
    """CRC-32 over the names and contents of the chart's files, sorted by name."""
    crc = 0
    files = {path.relative_to(CHART).as_posix(): path for path in CHART.rglob("*") if path.is_file()}
    for name, path in sorted(files.items()):
        crc = zlib.crc32(name.encode() + b"\0" + path.read_bytes(), crc)
    return crc


def sums(names):
    """A line for the chart, one for the refused values, and one for each of these files."""
    lines = [f"{chart_sum():08x}  charts/loadmaster\n"]
    for name in [REFUSED.relative_to(ROOT).as_posix(), *names]:
        lines.append(f"{zlib.crc32((ROOT / name).read_bytes()):08x}  {name}\n")
    return "".join(lines)


def is_current(path, text):
    return path.exists() and path.read_text() == text


def main():
    try:
        import helm_python as helm
    except ImportError:
        sys.exit("the chart was not rendered: this needs `pip install helm-python-sdk`")
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / CHART.name
        shutil.copytree(CHART, copy)
        files = dict(generated(helm, copy))
    stale = [name for name, text in files.items() if not is_current(ROOT / name, text)]
    gone = [path for path in RENDERED.iterdir() if path.relative_to(ROOT).as_posix() not in files]
    if "--check" not in sys.argv:
        for path in gone:
            path.unlink()
        for name in stale:
            (ROOT / name).write_text(files[name])
        (ROOT / SUMS).write_text(sums(name for name in files if not name.startswith("charts/")))
        print("\n".join(stale) or "every file is up to date")
    elif stale or gone:
        names = stale + [path.relative_to(ROOT).as_posix() for path in gone]
        sys.exit("not up to date, run `make render-chart`:\n" + "\n".join(names))


if __name__ == "__main__":
    main()
