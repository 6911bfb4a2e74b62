package fsx

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileSystemHere(t *testing.T) {
	dir := t.TempDir()
	if err := CheckLocal(dir); err != nil {
		t.Error(err)
	}
	err := CheckLocal(filepath.Join(dir, "missing"))
	if missing := err != nil; missing && errors.Is(err, ErrRemote) {
		t.Error(err)
	}
}

func TestFileSystemKinds(t *testing.T) {
	for _, kind := range strings.Fields(`nfs nfs4 cifs smb3 smbfs 9p virtiofs afs afpfs webdav
		vboxsf vmhgfs prl_fs fakeowner ceph AppleVirtIOFS
		fuse.sshfs fuse.grpcfuse fuse.vmhgfs-fuse fuse.prl_fsd fuse.rclone fuse.s3fs fuse.gcsfuse fuse.osxfs`) {
		err := refuseRemote("/some/folder", kind)
		if !errors.Is(err, ErrRemote) {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		for _, part := range []string{"/some/folder", kind, "keep the database on a local disk"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	for _, kind := range strings.Fields(`ext4 xfs btrfs zfs tmpfs overlay f2fs apfs hfs msdos exfat vfat ntfs ntfs3
		fuse fuseblk fuse.fuse-overlayfs fuse.ntfs-3g fuse.mergerfs fuse.gocryptfs fuse.encfs fuse.bindfs`) {
		if err := refuseRemote("/some/folder", kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := refuseRemote("/some/folder", ""); err != nil {
		t.Error(err)
	}
}

func TestFileSystemUNC(t *testing.T) {
	for volume, want := range map[string]bool{
		``:                        false,
		`C:`:                      false,
		`\\?\C:`:                  false,
		`\\.\C:`:                  false,
		`\\?\Volume{1234-56}`:     false,
		`\\server\share`:          true,
		`//server/share`:          true,
		`\\wsl$\Debian`:           true,
		`\\?\UNC\server\share`:    true,
		`\\?\unc\server\share`:    true,
		`\\.\UNC\server\share`:    true,
		`\\?\UNC`:                 false,
		`\\server.example.com\c$`: true,
	} {
		if got := isUNC(volume); got != want {
			t.Errorf("%s: %v", volume, got)
		}
	}
}
