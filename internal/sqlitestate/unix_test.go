//go:build unix && !nosqlite

package sqlitestate

import (
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFilesAreTheOwnersAlone(t *testing.T) {
	for _, umask := range []int{0o022, 0} {
		defer syscall.Umask(syscall.Umask(umask))
		dir := t.TempDir()
		path := filepath.Join(dir, "a", "b", "state.db")
		storeCharge(t, openDB(t, path))
		for name, want := range map[string]fs.FileMode{
			filepath.Join(dir, "a"):      fs.ModeDir | 0o700,
			filepath.Join(dir, "a", "b"): fs.ModeDir | 0o700,
			path:                         0o600,
			path + "-wal":                0o600,
			path + "-shm":                0o600,
		} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != want {
				t.Errorf("umask %03o: %s is %v, want %v", umask, strings.TrimPrefix(name, dir), info.Mode(), want)
			}
		}
	}
}

// A symbolic link to nowhere is no way around the permissions.
func TestFileBehindALinkIsTheOwnersAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	openDB(t, link)
	if info, err := os.Stat(target); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestFIFOIsRefusedAtOnce(t *testing.T) {
	path := statefile.Path(t)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	refused := make(chan error)
	go func() {
		d, err := Open(path, Formats{})
		if err == nil {
			d.Close()
		}
		refused <- err
	}()
	select {
	case err := <-refused:
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for somebody to write into the FIFO")
	}
}
