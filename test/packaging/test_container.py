#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Containers without docker: the instructions of packaging/container's files for docker and Kubernetes are carried out in
namespaces of an ordinary user. An installed tree is the image. A container has mount, PID, IPC and network namespaces
of its own, the volumes that the file names, and only the capabilities that the file adds.
"""
import json
import os
import re
import shlex
import subprocess
import tempfile

from rig import Skip, case, install, main, need

SOURCE = os.environ["RNIC_SOURCE"]
HERE = os.path.join(SOURCE, "packaging", "container")
HANG = 300  # seconds; a step that takes longer counts as a hang
NOBODY = 65534

# Runs in a user namespace in which the user is root. Each host, and each container with a network of its own, has a
# network namespace; all hosts are on one bridge. `box NETWORK VOLUME CAPABILITIES COMMAND...` runs a command in a new
# container.
BEGIN = """
set -eu
mount -t tmpfs none /run
ip link add bridge type bridge
ip link set bridge up
host() {
	ip netns add "$1"
	ip link add "p-$1" type veth peer name eth0 netns "$1"
	ip link set "p-$1" master bridge up
	ip -n "$1" addr add "$2" dev eth0
	ip -n "$1" link set eth0 up
	ip -n "$1" link set lo up
}
box() {
	net=$1 volume=$2 caps=$3
	shift 3
	mkdir -p "$volume"
	if [ "$net" = none ]; then enter=; new=n; else enter="nsenter --net=/run/netns/$net" new=; fi
	exec $enter unshare -mpi$new --fork --mount-proc --kill-child sh -c '
		mount -t tmpfs none /run
		mkdir /run/rnicd
		mount --bind "$0" /run/rnicd
		caps=$1
		shift
		exec setpriv --no-new-privs --bounding-set="$caps" --inh-caps=-all "$@"' "$volume" "$caps" "$@"
}
healthy() {
	pid=$1 n=0
	shift
	until inside=$(pgrep -P "$pid") && nsenter -t "$inside" --mount --net --pid "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 600 ] || { echo "not healthy in $((n / 10)) s: $*"; exit 1; }
		sleep 0.1
	done
}
"""


def yaml(name):
    """Parses a YAML file of packaging/container with Debian's own Python interpreter, which has the parser."""
    program = "import json,sys,yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
    p = subprocess.run(["/usr/bin/python3", "-c", program, os.path.join(HERE, name)], capture_output=True, text=True,
                       check=False)
    if "No module named" in p.stderr:
        raise Skip("python3-yaml is not installed")
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def quoted(words):
    return " ".join(shlex.quote(w) for w in words)


def bounding(add):
    return ",".join(["-all", *("+" + c.lower() for c in add)])


def run_as_user(script):
    """Runs the script in an installed tree as an ordinary user; returns its output."""
    for program in ("unshare", "setpriv", "nsenter", "ip", "rping", "ibv_devinfo"):
        need(program)
    with tempfile.TemporaryDirectory(prefix="rnic-box-") as place:
        image = os.path.join(place, "image")
        install(image)
        (sbin,) = (d for d, _, files in os.walk(image) if d.endswith("/sbin") and "rnicd" in files)
        path = ":".join([sbin, os.path.join(os.path.dirname(sbin), "bin"), HERE, os.environ["PATH"], "/usr/sbin:/sbin"])
        with open(os.path.join(place, "script"), "w", encoding="utf-8") as f:
            f.write(BEGIN + script)
        user = []
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", place], check=True)
            user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        p = subprocess.run([*user, "unshare", "-Urmnp", "--fork", "--mount-proc", "--kill-child", "sh",
                            os.path.join(place, "script")], cwd=place, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=HANG, check=False, env={"PATH": path, "HOME": place})
        if "unshare failed: Operation not permitted" in p.stdout:
            raise Skip("this system has no user namespaces for ordinary users")
        logs = [open(os.path.join(place, n), encoding="utf-8").read() for n in os.listdir(place) if n.endswith(".log")]
        assert p.returncode == 0, "\n".join([p.stdout, *logs])
        return p.stdout


@case
def the_two_hosts_of_the_compose_file_exchange_verified_data():
    services = yaml("compose.yaml")[0]["services"]
    daemons = [n for n, s in services.items() if "networks" in s]
    script = ""
    for name in daemons:
        s = services[name]
        (volume,) = (v.split(":")[0] for v in s["volumes"])
        script += f"host {name} {s['networks']['rdma']['ipv4_address']}/24\n"
        for key, value in s["sysctls"].items():
            script += f"ip netns exec {name} sysctl -qw {key}={value}\n"
        env = quoted(["env", *(f"{k}={v}" for k, v in s["environment"].items())])
        assert s["cap_drop"] == ["ALL"], s
        script += f"box {name} $PWD/{volume} {bounding(s['cap_add'])} {env} rnicd-entry >{name}.log 2>&1 &\n"
        script += f"healthy $! {quoted(s['healthcheck']['test'][1:])}\n"
    clients = [(n, s) for n, s in services.items() if n not in daemons]
    for name, s in clients:
        (volume,) = (v.split(":")[0] for v in s["volumes"])
        assert s["network_mode"] == "none" and s["cap_drop"] == ["ALL"], s
        script += f"box none $PWD/{volume} -all rnicrun {quoted(s['command'])} >{name}.log 2>&1 & last=$!\n"
    out = run_as_user(script + "wait $last && echo exchanged\n")
    assert out.endswith("exchanged\n"), out


@case
def a_pod_of_the_manifest_finds_the_device_of_its_node():
    daemon, pod = yaml("kubernetes.yaml")
    spec = daemon["spec"]["template"]["spec"]
    (box,), (client,) = spec["containers"], pod["spec"]["containers"]
    paths = [(v["hostPath"]["path"], m["mountPath"]) for s, c in ((spec, box), (pod["spec"], client))
             for v in s["volumes"] for m in c["volumeMounts"] if m["name"] == v["name"]]
    assert len(set(paths)) == 1 and len(paths) == 2, paths
    said = {e["name"]: e.get("value") or "192.168.1.7" for e in box["env"]}
    caps = box["securityContext"]["capabilities"]
    assert spec["hostNetwork"] and caps["drop"] == client["securityContext"]["capabilities"]["drop"] == ["ALL"]
    env = quoted(["env", *(f"{k}={v}" for k, v in said.items())])
    out = run_as_user(f"host node 192.168.1.7/24\n"
                      f"box node $PWD/run {bounding(caps['add'])} {env} rnicd-entry >rnicd.log 2>&1 &\n"
                      f"healthy $! {quoted(box['readinessProbe']['exec']['command'])}\n"
                      f"(box none $PWD/run -all rnicrun {quoted(client['args'])})\n")
    assert "hca_id:\trnic0" in out and "PORT_ACTIVE" in out and "10.88.1.7" in out, out


@case
def the_images_are_made_of_what_the_tree_has():
    with open(os.path.join(HERE, "Containerfile"), encoding="utf-8") as f:
        text = f.read().replace("\\\n", "")
    with open(os.path.join(SOURCE, "packaging", "debian", "control"), encoding="utf-8") as f:
        packages = set(re.findall(r"^Package: (\S+)", f.read(), re.M))
    assert (used := set(re.findall(r"/build/deb/([\w-]+)_\*", text))) and used <= packages, (used, packages)
    for path in re.findall(r"^COPY (packaging\S+)", text, re.M):
        assert os.access(os.path.join(SOURCE, path), os.X_OK), path
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.M))
    wanted = {s["build"]["target"] for s in yaml("compose.yaml")[0]["services"].values()}
    assert wanted <= stages, (wanted, stages)


@case
def an_entry_without_an_address_says_what_to_set():
    p = subprocess.run([os.path.join(HERE, "rnicd-entry")], env={"PATH": "/usr/bin:/bin", "RNIC_DEVICE": "tap:x"},
                       capture_output=True, text=True, check=False)
    assert p.returncode == 2 and "set RNIC_ADDRESS too" in p.stderr, p


if __name__ == "__main__":
    main()
