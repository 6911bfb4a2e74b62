//go:build unix && !nosqlite

// SQLite files on Unix: permissions, full disks.

package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func init() {
	sqliteChildren["refused"] = sqliteChildIsRefused
	sqliteChildren["fill"] = sqliteChildFillsTheDisk
}

// sqliteChildIsRefused opens a file that it may not use.
func sqliteChildIsRefused(_ io.Reader, args []string) error {
	rl, err := ratelimit.NewWithSQLite(args[0])
	if err == nil {
		rl.Close()
	}
	fmt.Printf("%t %v\n", errors.Is(err, ratelimit.ErrCorruptState), err)
	return nil
}

func TestSQLiteWithoutPermission(t *testing.T) {
	const nobody = 65534
	dir := t.TempDir()
	for folder := dir; folder != os.TempDir() && len(folder) > 1; folder = filepath.Dir(folder) {
		os.Chmod(folder, 0o755)
	}
	binary := filepath.Join(dir, "test")
	if data, err := os.ReadFile(os.Args[0]); err != nil || os.WriteFile(binary, data, 0o755) != nil {
		t.Skip("the test binary cannot be copied")
	}
	tests := []struct {
		name                   string
		folder, file           fs.FileMode // 0 for none
		owned                  bool
		mentions, mentionsAlso string
	}{
		{"the file is not readable", 0o755, 0o600, false, "unable to open database file", ""},
		{"the file is only readable", 0o755, 0o644, false, "readonly", "unable to open database file"},
		{"the folder is not writable", 0o755, 0, false, "permission denied", ""},
		{"the folder is not searchable", 0o700, 0o644, false, "permission denied", ""},
		{"the folder is not writable, and WAL needs it", 0o755, 0o600, true, "readonly", "unable to open database file"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			folder := filepath.Join(dir, fmt.Sprint(i))
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "state.db")
			if tt.file != 0 {
				data, err := os.ReadFile(sqliteSample(t))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				os.Chmod(path, tt.file)
				if tt.owned {
					os.Chown(path, nobody, nobody)
				}
			}
			os.Chmod(folder, tt.folder)
			cmd := exec.Command(binary, "-test.run=^TestSQLiteChild$", "--", path)
			cmd.Env = sqliteChildEnviron("refused")
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, fs.ErrPermission) {
				t.Skip("only root can become somebody else")
			}
			got := string(out)
			if err != nil || !strings.HasPrefix(got, "false new limiter: open database: ") ||
				!strings.Contains(got, tt.mentions) && (tt.mentionsAlso == "" || !strings.Contains(got, tt.mentionsAlso)) {
				t.Errorf("%s%v, want an error that mentions %q", got, err, tt.mentions)
			}
		})
	}
}

// sqliteChildFillsTheDisk works in a small file system of its own.
func sqliteChildFillsTheDisk(_ io.Reader, args []string) error {
	path, filler := filepath.Join(args[0], "state.db"), filepath.Join(args[0], "filler")
	rl, err := ratelimit.NewWithSQLite(path)
	if err != nil {
		return err
	}
	record := func(n int) {
		for range n {
			rl.RecordUsage("m", 1, 0)
		}
	}
	record(10)
	if err := rl.Persist(); err != nil {
		return err
	}
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %v", err)
	}
	record(5000)
	for range 3 {
		if err := rl.Persist(); err == nil || errors.Is(err, ratelimit.ErrCorruptState) {
			return fmt.Errorf("Persist to a full disk: %v", err)
		}
	}
	record(1)
	if s := rl.Stats("m"); s.RPM != 5011 {
		return fmt.Errorf("it counts on: %+v", s)
	}
	if err := ratelimit.MigrateYAMLToSQLite(args[1], filepath.Join(args[0], "new.db")); err == nil {
		return errors.New("migration to a full disk")
	}
	if _, err := os.Stat(filepath.Join(args[0], "new.db")); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the failed migration left a file: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	if err := rl.Persist(); err != nil {
		return err
	}
	if err := rl.Load(); err != nil {
		return err
	}
	if s := rl.Stats("m"); s.RPM != 5011 || s.RPD != 5011 {
		return fmt.Errorf("stored %+v", s)
	}
	fmt.Println("ok")
	return rl.Close()
}

func TestSQLiteFullDisk(t *testing.T) {
	t.Parallel()
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(source, []byte(migrateYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-Urm", "sh", "-c",
		`mount -t tmpfs -o size=1m tmpfs "$1" || { echo no tmpfs; exit; }; exec "$0" -test.run='^TestSQLiteChild$' -- "$1" "$2"`,
		os.Args[0], dir, source)
	cmd.Env = sqliteChildEnviron("fill")
	out, err := cmd.CombinedOutput()
	switch got := string(out); {
	case err != nil && !strings.Contains(got, "error:"), strings.HasPrefix(got, "no tmpfs"):
		t.Skipf("no small file system to be had: %v %s", err, got)
	case got != "ok\n":
		t.Error(got)
	}
}
