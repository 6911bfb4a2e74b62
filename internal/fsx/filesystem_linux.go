package fsx

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckLocal returns ErrRemote if dir is on a file system that other machines share, or
// the host of this one, and a *os.PathError where the system cannot tell.
func CheckLocal(dir string) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return &os.PathError{Op: "check file system of", Path: dir, Err: err}
	}
	kind := magicNames[uint32(fs.Type)]
	if kind == "fuse" {
		var folder syscall.Stat_t
		if err := syscall.Stat(dir, &folder); err != nil {
			return &os.PathError{Op: "check file system of", Path: dir, Err: err}
		}
		// Without /proc it stays "fuse", which passes.
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		if name := mountType(string(mounts), unix.Major(uint64(folder.Dev)), unix.Minor(uint64(folder.Dev))); name != "" {
			kind = name
		}
	}
	return refuseRemote(dir, kind)
}

// magicNames are the numbers in statfs(2) of remote file systems. All of FUSE has one
// number, and so has virtiofs.
var magicNames = map[uint32]string{
	0x01021997: "9p",
	0x61636673: "acfs",
	0x5346414F: "afs",
	0x6B414653: "afs",
	0x19830326: "beegfs",
	0x00C36400: "ceph",
	0xFF534D42: "cifs",
	0x73757245: "coda",
	0x65735546: "fuse",
	0x47504653: "gpfs",
	0x0BD00BD0: "lustre",
	0x0000564C: "ncpfs",
	0x00006969: "nfs",
	0x20030528: "orangefs",
	0xAAD7AAEA: "panfs",
	0x7C7C6673: "prl_fs",
	0x0000517B: "smbfs",
	0xFE534D42: "smb2",
	0x786F4256: "vboxsf",
	0xBACBACBC: "vmhgfs",
}

// mountType returns the type of the file system with the given device number, and "" if
// the text of mountinfo does not have it. It goes by the number because paths mislead:
// mounts hide each other.
//
//	36 35 98:0 /root /mount/point rw,noatime shared:1 - fuse.sshfs host:/dir rw
func mountType(mountinfo string, major, minor uint32) string {
	device := fmt.Sprintf("%d:%d", major, minor)
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != device {
			continue
		}
		if i := slices.Index(fields, "-"); i >= 0 && i+1 < len(fields) {
			return fields[i+1]
		}
	}
	return ""
}
