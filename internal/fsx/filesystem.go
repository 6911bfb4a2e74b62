package fsx

import (
	"errors"
	"fmt"
	"strings"
)

// ErrRemote says that a folder is on a file system whose locks do not hold between all the
// machines that use it.
var ErrRemote = errors.New("file system shared with other machines: keep the database on a local disk")

// refuseRemote returns ErrRemote, with the names, if kind is that of a file system whose
// locks do not hold between machines. It is named as in lists of mounts.
func refuseRemote(dir, kind string) error {
	if isRemote(kind) {
		return fmt.Errorf("folder %s is on %s: %w", dir, kind, ErrRemote)
	}
	return nil
}

// remoteFileSystems are those that other machines, or the host of a virtual one, may use
// at the same time. FUSE has more than a list can hold, and local ones too: a file system
// that is not known here passes.
var remoteFileSystems = map[string]bool{
	"9p": true, "acfs": true, "afpfs": true, "afs": true, "beegfs": true,
	"ceph": true, "cifs": true, "coda": true, "davfs": true, "fakeowner": true,
	"glusterfs": true, "gpfs": true, "lustre": true, "ncpfs": true, "nfs": true,
	"nfs4": true, "orangefs": true, "panfs": true, "prl_fs": true, "pvfs2": true,
	"smb": true, "smb2": true, "smb3": true, "smbfs": true, "vboxsf": true,
	"virtiofs": true, "vmhgfs": true, "webdav": true, "ftp": true,
	"applevirtiofs": true,

	"fuse.ceph": true, "fuse.ceph-fuse": true, "fuse.cephfs": true,
	"fuse.curlftpfs": true, "fuse.davfs": true, "fuse.davfs2": true,
	"fuse.fakeowner": true, "fuse.gcsfuse": true, "fuse.glusterfs": true,
	"fuse.goofys": true, "fuse.google-drive-ocamlfuse": true,
	"fuse.grpcfuse": true, "fuse.gvfsd-fuse": true, "fuse.juicefs": true,
	"fuse.lizardfs": true, "fuse.mfs": true, "fuse.moosefs": true,
	"fuse.mount-s3": true, "fuse.mountpoint-s3": true, "fuse.nfs": true,
	"fuse.blobfuse": true, "fuse.blobfuse2": true, "fuse.osxfs": true,
	"fuse.portal": true, "fuse.prl_fs": true, "fuse.prl_fsd": true,
	"fuse.rclone": true, "fuse.s3fs": true, "fuse.seaweedfs": true,
	"fuse.smbnetfs": true, "fuse.sshfs": true, "fuse.vboxsf": true,
	"fuse.virtiofs": true, "fuse.vmhgfs": true, "fuse.vmhgfs-fuse": true,
}

func isRemote(kind string) bool { return remoteFileSystems[strings.ToLower(kind)] }

// isUNC reports whether the name of a Windows volume is that of a share, such as
// \\server\share or \\?\UNC\server\share, and not C: or \\?\C:.
func isUNC(volume string) bool {
	volume = strings.ReplaceAll(volume, "/", `\`)
	if len(volume) > 4 && (strings.HasPrefix(volume, `\\?\`) || strings.HasPrefix(volume, `\\.\`)) {
		return len(volume) > 8 && strings.EqualFold(volume[4:8], `UNC\`)
	}
	return strings.HasPrefix(volume, `\\`)
}
