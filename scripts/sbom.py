#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lists the packages that the built programs and libraries need at run time, as SPDX 2.3 in JSON.
usage: sbom.py BUILD_FOLDER COMMIT    the shared libraries that the loader names, and the Debian packages with them"""

import glob
import json
import os
import re
import subprocess
import sys
import time

BUILT = ('app/rnicd/rnicd', 'app/rnicctl/rnicctl', 'app/rnicrun/rnicrun', 'app/testpmd-rdma/testpmd-rdma',
         'lib/rnic/librnic.so.0', 'lib/rnic/sock/librnicsock.so.0', 'app/rnicd/librnic_embedded.so.0')


def out_of(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def libraries(build):
    """The files of the libraries that the loader finds for the built programs, without this project's own libraries."""
    found = set()
    for name in BUILT:
        path = os.path.join(build, name)
        if os.path.exists(path):
            found |= set(re.findall(r'=> (/\S+) \(', out_of('ldd', path)))
    return sorted(os.path.realpath(f) for f in found if not os.path.realpath(f).startswith(os.path.realpath(build)))


def packages(files):
    """[(package, version)]: the Debian packages that contain the files."""
    names = set()
    for f in files:
        for path in (f, f.replace('/usr/lib/', '/lib/', 1), f.replace('/lib/', '/usr/lib/', 1)):
            p = subprocess.run(['dpkg-query', '-S', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               check=False)
            if p.returncode == 0:
                names.add(p.stdout.split(':')[0])
                break
        else:
            sys.exit('sbom: no Debian package contains %s' % f)
    return [(n, out_of('dpkg-query', '-W', '-f', '${Version}', n)) for n in sorted(names)]


def spdx_id(name):
    return 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]', '-', name)


def document(version, commit, needs):
    ours = {'SPDXID': 'SPDXRef-rnic', 'name': 'rnic', 'versionInfo': version, 'downloadLocation': 'NOASSERTION',
            'filesAnalyzed': False, 'licenseConcluded': 'BSD-3-Clause', 'licenseDeclared': 'BSD-3-Clause',
            'copyrightText': 'NOASSERTION', 'comment': 'commit ' + commit}
    others = [{'SPDXID': spdx_id(n), 'name': n, 'versionInfo': v, 'downloadLocation': 'NOASSERTION',
               'filesAnalyzed': False, 'licenseConcluded': 'NOASSERTION', 'licenseDeclared': 'NOASSERTION',
               'copyrightText': 'NOASSERTION',
               'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl',
                                 'referenceLocator': 'pkg:deb/debian/%s@%s' % (n, v)}]} for n, v in needs]
    return {'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT',
            'name': 'rnic-' + version,
            'documentNamespace': 'https://spdx.org/spdxdocs/rnic-%s-%s' % (version, commit),
            'creationInfo': {'created': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
                             'creators': ['Tool: scripts/sbom.py']},
            'packages': [ours, *others],
            'relationships': [{'spdxElementId': 'SPDXRef-DOCUMENT', 'relationshipType': 'DESCRIBES',
                               'relatedSpdxElement': 'SPDXRef-rnic'},
                              *({'spdxElementId': 'SPDXRef-rnic', 'relationshipType': 'DYNAMIC_LINK',
                                 'relatedSpdxElement': p['SPDXID']} for p in others)]}


def main():
    if len(sys.argv) != 3 or not glob.glob(os.path.join(sys.argv[1], BUILT[0])):
        sys.exit(__doc__)
    project = json.loads(out_of('meson', 'introspect', '--projectinfo', sys.argv[1]))
    json.dump(document(project['version'], sys.argv[2], packages(libraries(sys.argv[1]))), sys.stdout, indent=1)
    print()


if __name__ == '__main__':
    main()
