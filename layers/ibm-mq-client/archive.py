"""IBM's archive: where it comes from, whether it is the right one, and what is in it."""

import hashlib
import posixpath
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path

NAME = "{}-IBM-MQC-Redist-LinuxX64.tar.gz"
# Several times what the archives have.
MOST_FILES = 20_000
MOST_LINKS = 8
MOST_BYTES = 4 * 1024**3
TIMEOUT_SECONDS = 60
BLOCK = 1024 * 1024


class Refused(Exception):
    """Why no layer is made, and what to do."""


@dataclass
class Settings:
    """What the environment and client.conf say."""

    archive: str
    version: str
    sha256: str
    mirror: str


def settings(environment, file):
    """The values of client.conf, unless the environment has others."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))

    def value(name):
        return environment.get(name, values.get(name, "")).strip()

    return Settings(value("IBM_MQ_ARCHIVE"), value("IBM_MQ_VERSION"), value("IBM_MQ_SHA256").lower(), value("IBM_MQ_MIRROR").rstrip("/"))


def obtain(settings, folder):
    """The archive, whose SHA-256 is the one that was asked for, and that SHA-256."""
    path = Path(settings.archive).expanduser() if settings.archive else _download(settings, folder)
    if not path.is_file():
        raise Refused(f"There is no file {path.absolute()}. Give IBM_MQ_ARCHIVE as an absolute path.")
    digest = _sha256(path)
    if settings.sha256 and digest != settings.sha256:
        raise Refused(f"The SHA-256 of {path.name} is {digest}, and IBM_MQ_SHA256 is {settings.sha256}. It is another file, or was changed.")
    return path, digest


def _sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _download(settings, folder):
    if not settings.version:
        raise Refused(
            "The layer is made from IBM's redistributable client, which is not part of IntegraHub. Give its archive by path (IBM_MQ_ARCHIVE), "
            "or name a version and its SHA-256 in client.conf. Without this layer only RabbitMQ works."
        )
    if not settings.sha256:
        raise Refused("A download needs IBM_MQ_SHA256, so that it cannot be another file. Download the archive once and compute it: sha256sum FILE.")
    path = folder / NAME.format(settings.version)
    url = f"{settings.mirror}/{path.name}"
    print(f"Downloading {url}", flush=True)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer, path.open("wb") as file:
            while block := answer.read(BLOCK):
                file.write(block)
                if file.tell() > MOST_BYTES:
                    raise Refused(f"{url} has more than {MOST_BYTES} bytes. That is no archive of IBM's client.")
    except (OSError, ValueError) as error:
        raise Refused(f"{url} cannot be downloaded: {error}. IBM removes versions that it no longer supports.") from None
    return path


def unpack(path, folder, wanted):
    """Writes the wanted files of the archive below the folder, links as copies. Gives the size of each by its name.

    No link is ever made, so none can lead a file out of the folder.
    """
    try:
        links = _links(path)
        return _write(path, folder, {name: _target(path, links, name) for name in links if wanted(name)})
    except (tarfile.TarError, EOFError, OSError) as error:
        raise Refused(f"{path.name} is not a whole tar.gz archive: {error}.") from None


def _links(path):
    """Every file and link by its name, with the name that a link leads to. Looks at all of the archive before anything is written."""
    links, total = {}, 0
    with tarfile.open(path, "r:gz") as archive:
        for number, member in enumerate(archive):
            total += member.size
            if number >= MOST_FILES or total > MOST_BYTES:
                raise Refused(f"{path.name} has more than {MOST_FILES} files or {MOST_BYTES} bytes. That is no archive of IBM's client.")
            name = posixpath.normpath(member.name)
            if _leads_out(name):
                raise Refused(f"{path.name} has a name that leads out of it: {member.name}. Nothing was unpacked.")
            if member.isfile():
                links[name] = None
            elif member.issym():
                links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
            elif member.islnk():
                links[name] = posixpath.normpath(member.linkname)
            elif not member.isdir():
                raise Refused(f"{path.name} has something that is neither a file nor a folder nor a link: {member.name}.")
    return links


def _leads_out(name):
    return posixpath.isabs(name) or name == ".." or name.startswith("../")


def _target(path, links, name):
    """The file that a name leads to in the end."""
    target = name
    for _ in range(MOST_LINKS):
        if target not in links:
            break
        if links[target] is None:
            return target
        target = links[target]
    raise Refused(f"{path.name} has a link that leads to no file in it: {name}.")


def _write(path, folder, targets):
    """Writes the content of each target under each name that leads to it, in one pass over the archive."""
    names, sizes = {}, {}
    for name, target in targets.items():
        names.setdefault(target, []).append(name)
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            # A file that is there twice counts as its last occurrence, as for tar.
            for name in names.get(posixpath.normpath(member.name), ()) if member.isfile() else ():
                place = folder / name
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.extractfile(member) as source, place.open("wb") as file:
                    shutil.copyfileobj(source, file)
                sizes[name] = member.size
    return sizes
