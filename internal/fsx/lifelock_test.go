package fsx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func wantLife(t *testing.T, path string, want Liveness) {
	t.Helper()
	if got := LivenessOf(path); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLifeLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "life")
	wantLife(t, path, Unknown)
	RemoveDead(path)
	life, err := HoldLife(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLife(t, path, Alive)
	RemoveDead(path)
	wantLife(t, path, Alive)
	if _, err := HoldLife(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("two hold one life: %v", err)
	}
	if info, err := os.Lstat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for range 2 {
		if err := life.Release(); err != nil {
			t.Error(err)
		}
	}
	wantLife(t, path, Unknown)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := HoldLife(filepath.Join(dir, "no", "life")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

func TestLifeOfKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "life")
	cmd, _, said := fileLockChild(t, "life", path)
	wantSaid(t, said, "held")
	wantLife(t, path, Alive)
	RemoveDead(path)
	wantLife(t, path, Alive)
	kill(t, cmd)
	// Windows may still be closing what the process had open.
	eventually(t, "dead", func() bool { return LivenessOf(path) == Dead })
	wantLife(t, path, Dead)
	RemoveDead(path)
	wantLife(t, path, Unknown)
}

// Releasing a life whose file is gone leaves alone the file that took its place.
func TestLifeLockReleaseLeavesOthersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there nobody can remove an open file")
	}
	path := filepath.Join(t.TempDir(), "life")
	first, err := HoldLife(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := HoldLife(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	wantLife(t, path, Alive)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := second.Release(); err != nil {
		t.Errorf("released, and the file was gone: %v", err)
	}
}

// However often others look and remove, no live owner is taken for dead.
func TestLifeLockWhileOthersLook(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				// Among them are temporary files that are not locked yet.
				names, _ := filepath.Glob(filepath.Join(dir, "*"))
				for _, name := range names {
					is := LivenessOf(name)
					// On Windows a released file is not removed at once.
					if is == Dead && filepath.Base(name)[0] != '.' && runtime.GOOS != "windows" {
						t.Error("taken for dead:", name)
					}
					RemoveDead(name)
				}
			}
		})
	}
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprint("life", i))
		life, err := HoldLife(path)
		if err != nil {
			t.Error(err)
			break
		}
		wantLife(t, path, Alive)
		if err := life.Release(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	all.Wait()
}

func TestLifeOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	wantLife(t, dir, Unknown)
	RemoveDead(dir)
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantLife(t, target, Dead) // as a dead owner left it
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	if runtime.GOOS != "windows" {
		wantLife(t, link, Unknown)
	}
	if _, err := HoldLife(link); !errors.Is(err, os.ErrExist) {
		t.Errorf("held through a link: %v", err)
	}
	wantLife(t, target, Dead)
}

// No observer takes another observer for the owner.
func TestLifeOfDeadWhileOthersLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "life")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300 {
				if is := LivenessOf(path); is != Dead {
					t.Errorf("%v", is)
					return
				}
			}
		})
	}
	all.Wait()
}
