//go:build !nosqlite

// Shared: a disk that is full or read-only.

package ratelimit_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedDiskEnv makes of this test program one that has a small disk of its own, at the
// folder that it names.
const sharedDiskEnv = "RATELIMIT_TEST_SHARED_DISK"

// onDisk runs the test of the given name again, in a process that may mount a disk.
func onDisk(t *testing.T) (folder string) {
	t.Helper()
	if folder := os.Getenv(sharedDiskEnv); folder != "" {
		return folder
	}
	if out, err := exec.Command("unshare", "-Urm", "true").CombinedOutput(); err != nil {
		t.Skipf("no user namespaces here: %v %s", err, out)
	}
	folder = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-Urm", "sh", "-c",
		`mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -test.v -test.run="^$3\$"`, "sh", folder, os.Args[0], t.Name())
	cmd.Env = append(os.Environ(), sharedDiskEnv+"="+folder)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return ""
}

// The disk is full, and later it is not.
func TestSharedDiskFull(t *testing.T) {
	t.Parallel()
	folder := onDisk(t)
	if folder == "" {
		return
	}
	path := filepath.Join(folder, "state.db")
	var log errorLog
	rl := openShared(t, path, log.config, func(cfg *ratelimit.Config) {
		cfg.Quotas = map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100_000, MaxTPM: 1_000_000}}
	})
	rl.RecordUsage("m", 10, 0)
	filler := filepath.Join(folder, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 4096); err == nil; {
		_, err = f.Write(chunk)
	}
	if f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	n := 1
	for ; rl.Err() == nil; n++ {
		if n > 50_000 {
			t.Fatal("no error on a full disk")
		}
		if r, d := rl.Reserve("m", 10, 0); r == nil {
			t.Fatalf("denied: %+v", d)
		} else {
			r.Commit(10, 0)
		}
	}
	if err := rl.Err(); !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "full") {
		t.Errorf("Err is %v, want one that names the file and the cause", err)
	}
	for range 1000 {
		rl.RecordUsage("m", 10, 0)
		n++
	}
	sharedEventually(t, "a report", func() bool { return log.len() > 0 })
	if d := rl.Decide("m", 1_000_000-10*n); !d.Allowed {
		t.Errorf("what is left is denied: %+v", d)
	}
	if d := rl.Decide("m", 1_000_000-10*n+1); d.Allowed {
		t.Error("more than is left is allowed")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	sharedEventually(t, "it is written", func() bool { return rl.Err() == nil })
	if got := openShared(t, path).Stats("m"); got.RPM != n || got.TPM != 10*n || got.RPD != n || got.TPD != 10*n {
		t.Errorf("in the file are %+v, want %d requests of 10 tokens", got, n)
	}
	if err := rl.Close(); err != nil {
		t.Error(err)
	}
}

// A folder that cannot be written to is an error of the constructor, and one that becomes
// so is no reason to stop.
func TestSharedReadOnly(t *testing.T) {
	t.Parallel()
	folder := onDisk(t)
	if folder == "" {
		return
	}
	path := filepath.Join(folder, "state.db")
	rl := openShared(t, path)
	kept := reserves(t, rl, 3)
	remount := func(options string) {
		t.Helper()
		if out, err := exec.Command("mount", "-o", "remount,"+options, folder).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	if out, err := exec.Command("mount", "-o", "remount,ro", folder).CombinedOutput(); err != nil {
		// The kernel refuses that while files are open for writing: what is checked then
		// is a file that was closed.
		t.Logf("%v %s", err, out)
		rl.Close()
		remount("ro")
		if rl, err := ratelimit.NewWithSQLiteConfig(path, ratelimit.Config{Shared: true}); err == nil {
			rl.Close()
			t.Error("opened on a read-only file system")
		} else if !errors.Is(err, syscall.EROFS) {
			t.Errorf("error is %v", err)
		}
		remount("rw")
		wantRPM(t, openShared(t, path), 3)
		return
	}
	kept = append(kept, reserves(t, rl, 2)...)
	if rl.Err() == nil {
		t.Error("no error")
	}
	remount("rw")
	sharedEventually(t, "it is written", func() bool { return rl.Err() == nil })
	wantRPM(t, openShared(t, path), 5)
	runtime.KeepAlive(kept)
}
