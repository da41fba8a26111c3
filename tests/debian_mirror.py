# SPDX-License-Identifier: GPL-2.0-or-later
"""A small Debian mirror in a directory, signed, with packages that hold what passes for kernels."""

import hashlib
import lzma
import os
import shutil
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conftest import need

from xdprepro import cmd

MODULE = 'static const char license[] __attribute__((section(".modinfo"), used)) = "license=GPL";\n'
# What debian_lists is told by who wants nothing certain.
ANY_PACKAGE = {
    "suite": "",
    "package": "",
    "version": "",
    "holds": "image",
}
LARGE_BYTES = 64 << 20  # takes long enough to be interrupted in


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    depends: str = ""


@dataclass(frozen=True)
class Mirror:
    directory: Path
    keyring: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "XDPREPRO_DEBIAN_MIRROR": f"file:{self.directory}",
            "XDPREPRO_DEBIAN_KEYRING": str(self.keyring),
        }


def make_bzimage(release: str, *, size_bytes: int = 4096, paragraphs: int = 0) -> bytes:
    """The setup header of a kernel, and nothing that could boot; 96 paragraphs are all of the smallest."""
    image = bytearray(max(size_bytes, 4096))
    struct.pack_into("<I", image, 0x1F4, paragraphs)
    image[0x1FE:0x200] = b"\x55\xaa"
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<HH", image, 0x20E, 0x400, 0)
    text = f"{release} (test) #1\0".encode()
    image[0x600 : 0x600 + len(text)] = text
    return bytes(image)


def make_module(directory: Path) -> bytes:
    """An object that depmod takes for a module."""
    source, made = directory / "module.c", directory / "module.ko"
    source.write_text(MODULE)
    cmd.run(["gcc", "-c", source, "-o", made])
    return made.read_bytes()


def make_config(release: str) -> bytes:
    return f'CONFIG_CC_VERSION_TEXT="gcc-12 (test) 12.2.0"\n# {release}\nCONFIG_VETH=m\n'.encode()


def image_package(release: str, version: str, module: bytes, *, name: str = "", size_bytes: int = 0) -> Package:
    files = {
        f"boot/vmlinuz-{release}": make_bzimage(release, size_bytes=size_bytes),
        f"boot/config-{release}": make_config(release),
        f"boot/System.map-{release}": b"ffffffffffffffff B The real one is elsewhere\n",
        f"lib/modules/{release}/modules.builtin": b"",
        f"lib/modules/{release}/modules.order": b"kernel/net/x.ko\n",
        f"lib/modules/{release}/kernel/net/x.ko": module,
        "usr/share/doc/changelog": b"not wanted\n",
    }
    return Package(name or f"linux-image-{release}", version, files)


def split_packages(release: str, version: str, module: bytes) -> list[Package]:
    """As Debian has them from 6.19 on."""
    top = f"usr/lib/modules/{release}"
    binary, modules, base = (f"linux-{what}-{release} (= {version})" for what in ("binary", "modules", "base"))
    return [
        Package(f"linux-image-{release}", version, depends=f"kmod, linux-base (>= 4.12~), {binary}, {modules}"),
        Package(f"linux-binary-{release}", version, {f"{top}/vmlinuz": make_bzimage(release)}, base),
        Package(f"linux-modules-{release}", version, {f"{top}/kernel/net/x.ko": module}, f"kmod, {base}"),
        Package(
            f"linux-base-{release}",
            version,
            {f"{top}/config": make_config(release), f"{top}/modules.builtin": b"", f"{top}/modules.order": b""},
        ),
        Package("linux-image-amd64", version, depends=f"linux-image-{release} (= {version})"),
    ]


def source_package(version: str, directory: Path) -> Package:
    """A package that holds a source tarball."""
    tree = directory / "linux-source-6.1"
    make_tree(tree)
    tarball = directory / "linux-source-6.1.tar"
    with tarfile.open(tarball, "w") as archive:
        archive.add(tree, tree.name)
    files = {"usr/src/linux-source-6.1.tar.xz": lzma.compress(tarball.read_bytes())}
    return Package("linux-source-6.1", version, files)


def make_tree(tree: Path) -> None:
    """What passes for the source of a kernel."""
    for name in ("Makefile", "Kconfig", "Kbuild", "arch/x86/Makefile", "drivers/net/veth.c"):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")


def make_mirror(directory: Path, suites: Mapping[str, list[Package]]) -> Mirror:
    """`suites` by their names; the security archive is not there, as on many mirrors."""
    need(shutil.which("gpg") is not None, "no gpg: run 'make setup-test'")
    need(shutil.which("dpkg-deb") is not None, "no dpkg-deb: not a Debian")
    home = directory / "gnupg"
    home.mkdir(parents=True, mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    cmd.run([*gpg, "--quick-generate-key", f"test-{os.getpid()}@example.org", "rsa2048", "sign", "never"])
    mirror = Mirror(directory / "debian", directory / "keyring.gpg")
    cmd.run([*gpg, "--output", mirror.keyring, "--export"])
    for suite, packages in suites.items():
        stanzas = [_add_package(mirror.directory, package) for package in packages]
        _write_suite(mirror.directory, suite, "\n".join(stanzas), gpg)
    cmd.run(["gpgconf", "--homedir", home, "--kill", "all"])
    return mirror


def _add_package(mirror: Path, package: Package) -> str:
    """Build it; its stanza in the list."""
    tree = mirror / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    control = f"Package: {package.name}\nVersion: {package.version}\nArchitecture: amd64\n"
    control += f"Depends: {package.depends}\n" if package.depends else ""
    for name, content in {
        "DEBIAN/control": f"{control}Maintainer: test <test@example.org>\nDescription: test\n".encode(),
        **package.files,
    }.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    name = f"pool/{package.name}_{package.version.replace(':', '%3a')}_amd64.deb"
    (mirror / "pool").mkdir(exist_ok=True)
    cmd.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, mirror / name])
    content = (mirror / name).read_bytes()
    shutil.rmtree(tree)
    return f"{control}Filename: {name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"


def _write_suite(mirror: Path, suite: str, text: str, gpg: list[str]) -> None:
    directory = mirror / "dists" / suite
    name = "main/binary-amd64/Packages"
    (directory / name).parent.mkdir(parents=True)
    (directory / name).write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    release = f"Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\nComponents: main\n"
    release += f"Date: Thu, 01 Jan 2026 00:00:00 UTC\nArchitectures: amd64\nSHA256:\n {digest} {len(text)} {name}\n"
    (directory / "Release").write_text(release)
    cmd.run([*gpg, "--yes", "--output", directory / "InRelease", "--clearsign", directory / "Release"])
