//go:build unix

// YAML files on Unix: links, odd files, permissions, leftovers.

package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// Both Persist and Load follow symbolic links, and the links stay.
func TestYAMLFollowsSymlinks(t *testing.T) {
	tests := map[string]func(t *testing.T) (path, target string){
		"to a file": func(t *testing.T) (string, string) {
			target := statefile.Write(t, statefile.Sample)
			return statefile.Symlink(t, target), target
		},
		"to a link": func(t *testing.T) (string, string) {
			target := statefile.Write(t, statefile.Sample)
			return statefile.Symlink(t, statefile.Symlink(t, target)), target
		},
		"relative": func(t *testing.T) (string, string) {
			target := statefile.Write(t, statefile.Sample)
			path := filepath.Join(filepath.Dir(target), "link.yaml")
			if err := os.Symlink("./state.yaml", path); err != nil {
				t.Fatal(err)
			}
			return path, target
		},
		"relative, of a folder that is a link": func(t *testing.T) (string, string) {
			target := statefile.Write(t, statefile.Sample)
			dir := filepath.Join(filepath.Dir(target), "dir")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../state.yaml", filepath.Join(dir, "link.yaml")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(statefile.Symlink(t, dir), "link.yaml"), target
		},
		"to nothing yet": func(t *testing.T) (string, string) {
			target := filepath.Join(t.TempDir(), "state.yaml")
			return statefile.Symlink(t, target), target
		},
		"into a folder that is not there yet": func(t *testing.T) (string, string) {
			target := filepath.Join(t.TempDir(), "a", "b", "state.yaml")
			return statefile.Symlink(t, target), target
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			path, target := prepare(t)
			link, err := os.Readlink(path)
			if err != nil {
				t.Fatal(err)
			}
			rl := limitertest.YAML(t, path)
			limitertest.Load(t, rl)
			rl.RecordUsage("m", 1, 2)
			limitertest.Save(t, rl)
			if now, err := os.Readlink(path); err != nil || now != link {
				t.Errorf("the link leads to %q, %v; want %q", now, err, link)
			}
			again := limitertest.YAML(t, target)
			limitertest.Load(t, again)
			if got, want := limitertest.Text(again.State), limitertest.Text(rl.State); got != want {
				t.Errorf("state =\n%swant\n%s", got, want)
			}
			if info, err := os.Lstat(target); err != nil || info.Mode() != 0o600 {
				t.Errorf("the target has mode %v, %v", info.Mode(), err)
			}
			for _, dir := range []string{path, target} {
				for _, name := range statefile.Litter(t, dir) {
					if strings.Contains(name, ".tmp-") {
						t.Errorf("left behind: %s", name)
					}
				}
			}
		})
	}
}

// The file that is kept lies beside the target of the link, and so does the
// temporary file: only there a rename replaces it.
func TestYAMLKeepsBesideTheTargetOfALink(t *testing.T) {
	target := statefile.Write(t, "?")
	path := statefile.Symlink(t, target)
	rl := limitertest.YAML(t, path)
	if rl.Load() == nil {
		t.Fatal("it loads")
	}
	limitertest.Save(t, rl)
	if kept := statefile.Litter(t, target); len(kept) != 1 || !strings.HasPrefix(kept[0], "state.yaml.corrupt-") {
		t.Errorf("beside the target lies %q", kept)
	}
	if litter := statefile.Litter(t, path); litter != nil {
		t.Errorf("beside the link lies %q", litter)
	}
}

func TestYAMLRefusesOddFiles(t *testing.T) {
	socket := func(t *testing.T, path string) {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Skip(err)
		}
		defer syscall.Close(fd)
		if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
			t.Skip(err)
		}
	}
	tests := []struct {
		name  string
		place func(t *testing.T, path string)
		load  string // the error's text, nothing for none
		save  string
	}{
		{"a folder", func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, "not a regular file", "not a regular file"},
		{"a FIFO", func(t *testing.T, path string) { syscall.Mkfifo(path, 0o600) }, "not a regular file", "not a regular file"},
		{"a socket", socket, "not a regular file", "not a regular file"},
		{"a link to a device", func(t *testing.T, path string) { os.Symlink(os.DevNull, path) }, "not a regular file", "not a regular file"},
		{"a link to a FIFO", func(t *testing.T, path string) {
			syscall.Mkfifo(path+".fifo", 0o600)
			os.Symlink(path+".fifo", path)
		}, "not a regular file", "not a regular file"},
		{"a link to itself", func(t *testing.T, path string) { os.Symlink(path, path) }, "too many levels of symbolic links", "too many symbolic links"},
		{"two links in a loop", func(t *testing.T, path string) {
			os.Symlink(path+"2", path)
			os.Symlink(path, path+"2")
		}, "too many levels of symbolic links", "too many symbolic links"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "y") // a socket's path has to be short
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "s")
			test.place(t, path)
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			litter := statefile.Litter(t, path)
			rl := limitertest.YAML(t, path)
			rl.RecordUsage("m", 1, 1)
			if err := rl.Load(); !errors.Is(err, ratelimit.ErrCorruptState) || !strings.Contains(err.Error(), test.load) {
				t.Errorf("Load = %v", err)
			}
			if err := rl.Persist(); err == nil || !strings.Contains(err.Error(), test.save) {
				t.Errorf("Persist = %v", err)
			}
			if got := rl.Stats("m").TPM; got != 2 {
				t.Errorf("TPM = %d", got)
			}
			if after, err := os.Lstat(path); err != nil || after.Mode() != before.Mode() {
				t.Errorf("it became %v, %v", after, err)
			}
			if got := statefile.Litter(t, path); strings.Join(got, " ") != strings.Join(litter, " ") {
				t.Errorf("left behind: %q", got)
			}
		})
	}
}

func TestYAMLPersistTightensTheMode(t *testing.T) {
	path := statefile.Write(t, statefile.Sample)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	rl := limitertest.YAML(t, path)
	limitertest.Save(t, rl)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

// A second name of the file stays with what it was.
func TestYAMLPersistLeavesHardLinksAlone(t *testing.T) {
	path := statefile.Write(t, statefile.Sample)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Link(path, other); err != nil {
		t.Skip(err)
	}
	rl := limitertest.YAML(t, path)
	rl.RecordUsage("m", 1, 1)
	limitertest.Save(t, rl)
	if statefile.Read(t, other) != statefile.Sample {
		t.Error("Persist wrote into the file in place")
	}
}

// A folder in which nothing can be written, or a file that cannot be read, is an
// error of its own kind; memory goes on.
func TestYAMLWithoutPermission(t *testing.T) {
	tests := []struct {
		name       string
		file, dir  fs.FileMode
		load, save bool // whether they work
	}{
		{"all", 0o600, 0o700, true, true},
		{"a file that is read-only", 0o400, 0o700, true, true}, // it is replaced, not written to
		{"a file that cannot be read", 0o200, 0o700, false, true},
		{"a folder that is read-only", 0o600, 0o500, true, false},
		{"a folder that cannot be entered", 0o600, 0o600, false, false},
		{"a folder that cannot be listed", 0o600, 0o300, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "yaml")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "state.yaml")
			if err := os.WriteFile(path, []byte(statefile.Sample), 0o600); err != nil {
				t.Fatal(err)
			}
			asOrdinaryUser(t, []string{path, dir}, func() {
				os.Chmod(path, test.file)
				os.Chmod(dir, test.dir)
				defer os.Chmod(dir, 0o700)
				rl := limitertest.YAML(t, path)
				rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 1})
				rl.RecordUsage("m", 1, 1)
				saved := rl.Persist()
				if test.save && saved != nil || !test.save && !errors.Is(saved, fs.ErrPermission) {
					t.Errorf("Persist = %v", saved)
				}
				if rl.CanSend("m", 1) {
					t.Error("the limiter lost what was used")
				}
				if !test.save {
					os.Chmod(dir, 0o700)
					if statefile.Read(t, path) != statefile.Sample {
						t.Error("the file changed")
					}
				}
				os.Chmod(path, test.file)
				os.Chmod(dir, test.dir)
				loaded := rl.Load()
				if test.load && loaded != nil || !test.load && !(errors.Is(loaded, fs.ErrPermission) && errors.Is(loaded, ratelimit.ErrCorruptState)) {
					t.Errorf("Load = %v", loaded)
				}
				os.Chmod(dir, 0o700)
				if litter := statefile.Litter(t, path); litter != nil {
					t.Errorf("left behind: %q", litter)
				}
			})
		})
	}
}

// A file that could not be read for want of permission is kept too.
func TestYAMLKeepsWhatItMayNotRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.yaml")
	if err := os.WriteFile(path, []byte(statefile.Sample), 0o000); err != nil {
		t.Fatal(err)
	}
	asOrdinaryUser(t, []string{path, dir}, func() {
		rl := limitertest.YAML(t, path)
		if err := rl.Load(); !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("Load = %v", err)
		}
		limitertest.Save(t, rl)
		limitertest.Load(t, rl)
		if kept := statefile.Litter(t, path); len(kept) != 1 || !strings.Contains(kept[0], ".corrupt-") {
			t.Errorf("beside the file lies %q", kept)
		}
	})
}

// asOrdinaryUser runs f without the rights of root, as the owner of the files. It skips the test
// where that user cannot get at them, because the folder for temporary files is root's alone.
func asOrdinaryUser(t *testing.T, files []string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	for _, file := range files {
		if err := os.Chown(file, nobody, nobody); err != nil {
			t.Skip(err)
		}
	}
	done := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if !becomeOnThisThread(nobody) {
			return
		}
		for _, file := range files {
			if _, err := os.Lstat(file); err != nil {
				done <- err
				return
			}
		}
		f()
	}()
	if err := <-done; err != nil {
		t.Skip(err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("root may do everything")
	}
}

// Every form of the temporary files of a writer that was killed is removed by
// the next constructor, and nothing else is.
func TestYAMLSweepsWhatKilledWritersLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.yaml")
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("quotas:\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := []string{".state.yaml.tmp-1234567890", ".state.yaml.tmp-1"}
	stay := []string{".other.yaml.tmp-1234567890", "state.yaml.tmp-1", ".state.yaml.tmp", "state.yaml.corrupt-20260101T000000.000000000Z", ".state.yaml.tmp-dir", ".state.yaml.tmp-link"}
	for _, name := range append(append([]string{}, gone...), stay[:4]...) {
		write(name)
	}
	if err := os.Mkdir(filepath.Join(dir, stay[4]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(stay[0], filepath.Join(dir, stay[5])); err != nil {
		t.Fatal(err)
	}
	limitertest.YAML(t, path)
	for _, name := range gone {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range stay {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}

	// Behind a link they lie beside its target.
	write(gone[0])
	limitertest.YAML(t, statefile.Symlink(t, path))
	if _, err := os.Lstat(filepath.Join(dir, gone[0])); err == nil {
		t.Errorf("%s is still there", gone[0])
	}
}

// A constructor never takes the file of a writer at work for one left behind.
func TestYAMLSweepLeavesLivingWritersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.yaml")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				limitertest.YAML(t, path)
			}
		}
	}()
	writers := make(chan error)
	const rounds = 150
	for range 2 {
		rl := limitertest.YAML(t, path)
		rl.RecordUsage("m", 1, 1)
		go func() {
			for range rounds {
				if err := rl.Persist(); err != nil {
					writers <- err
					return
				}
			}
			writers <- nil
		}()
	}
	for range 2 {
		select {
		case err := <-writers:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Persist does not return")
		}
	}
	close(stop)
	<-done
	limitertest.YAML(t, path)
	if litter := statefile.Litter(t, path); litter != nil {
		t.Errorf("left behind: %q", litter)
	}
}
