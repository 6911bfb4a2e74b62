package fsx

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSystemMagic(t *testing.T) {
	for magic, refused := range map[uint32]bool{
		unix.NFS_SUPER_MAGIC:  true,
		unix.SMB_SUPER_MAGIC:  true,
		unix.CIFS_SUPER_MAGIC: true,
		unix.SMB2_SUPER_MAGIC: true,
		unix.V9FS_MAGIC:       true,
		unix.AFS_SUPER_MAGIC:  true,
		unix.AFS_FS_MAGIC:     true,
		unix.CODA_SUPER_MAGIC: true,
		unix.NCP_SUPER_MAGIC:  true,
		unix.CEPH_SUPER_MAGIC: true,
		0x786f4256:            true, // VirtualBox
		0xbacbacbc:            true, // VMware
		0x7c7c6673:            true, // Parallels

		unix.FUSE_SUPER_MAGIC:      false, // the type decides
		unix.EXT4_SUPER_MAGIC:      false,
		unix.XFS_SUPER_MAGIC:       false,
		unix.BTRFS_SUPER_MAGIC:     false,
		unix.F2FS_SUPER_MAGIC:      false,
		unix.TMPFS_MAGIC:           false,
		unix.RAMFS_MAGIC:           false,
		unix.OVERLAYFS_SUPER_MAGIC: false,
		unix.MSDOS_SUPER_MAGIC:     false,
		unix.EXFAT_SUPER_MAGIC:     false,
		0x2fc12fc1:                 false, // ZFS
		0:                          false,
	} {
		err := refuseRemote("/folder", magicNames[magic])
		if errors.Is(err, ErrRemote) != refused {
			t.Errorf("%#x: %v", magic, err)
		}
	}
	if magicNames[unix.FUSE_SUPER_MAGIC] != "fuse" {
		t.Error("FUSE is not looked up")
	}
}

const someMounts = `22 27 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
35 27 0:46 / /home/me/far\040away rw,nosuid,nodev shared:1 master:2 - fuse.sshfs me@host:/dir rw,user_id=1000
36 27 0:4 / /short
37 27 0:47 / /shared rw - virtiofs tag rw
38 27 0:48 / /cut rw -
39 27 8:17 / /disk rw,relatime shared:9 - fuseblk /dev/sdb1 rw
40 27 0:49 /Users/me /work rw - fuse.grpcfuse grpcfuse rw
`

func TestFileSystemMountType(t *testing.T) {
	for device, want := range map[[2]uint32]string{
		{254, 0}: "ext4",
		{0, 46}:  "fuse.sshfs",
		{0, 47}:  "virtiofs",
		{8, 17}:  "fuseblk",
		{0, 49}:  "fuse.grpcfuse",
		{0, 4}:   "",
		{0, 48}:  "",
		{9, 9}:   "",
	} {
		if got := mountType(someMounts, device[0], device[1]); got != want {
			t.Errorf("%v: %q, want %q", device, got, want)
		}
	}
	for end := range someMounts { // torn anywhere, it does not panic
		mountType(someMounts[:end], 0, 48)
	}
}

// What the kernel says about this machine is understood.
func TestFileSystemMountTypeHere(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Skip(err)
	}
	var proc syscall.Stat_t
	if err := syscall.Stat("/proc/self", &proc); err != nil {
		t.Fatal(err)
	}
	device := uint64(proc.Dev)
	if got := mountType(string(mounts), unix.Major(device), unix.Minor(device)); got != "proc" {
		t.Errorf("/proc is %q in\n%s", got, strings.TrimSpace(string(mounts)))
	}
}
