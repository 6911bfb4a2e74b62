package ratelimit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func wantLife(t *testing.T, path string, want liveness) {
	t.Helper()
	if got := lifeOf(path); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLifeLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "life")
	wantLife(t, path, lifeUnknown)
	buryLife(path)
	life, err := holdLife(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLife(t, path, lifeAlive)
	buryLife(path)
	wantLife(t, path, lifeAlive)
	if _, err := holdLife(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("two hold one life: %v", err)
	}
	if info, err := os.Lstat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for range 2 {
		if err := life.release(); err != nil {
			t.Error(err)
		}
	}
	wantLife(t, path, lifeUnknown)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := holdLife(filepath.Join(dir, "no", "life")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}

func TestLifeOfKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "life")
	cmd, _, said := fileLockChild(t, "life", path)
	wantSaid(t, said, "held")
	wantLife(t, path, lifeAlive)
	buryLife(path)
	wantLife(t, path, lifeAlive)
	kill(t, cmd)
	// Windows may still be closing what the process had open.
	eventually(t, "dead", func() bool { return lifeOf(path) == lifeDead })
	wantLife(t, path, lifeDead)
	buryLife(path)
	wantLife(t, path, lifeUnknown)
}

// Whoever releases a life whose file is gone leaves alone what took its place.
func TestLifeLockReleaseLeavesOthersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there nobody can remove an open file")
	}
	path := filepath.Join(t.TempDir(), "life")
	first, err := holdLife(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := holdLife(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.release(); err != nil {
		t.Error(err)
	}
	wantLife(t, path, lifeAlive)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := second.release(); err != nil {
		t.Errorf("released, and the file was gone: %v", err)
	}
}

// However often others look and bury, nobody that lives is taken for dead.
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
				// Among them are those that have no lock and not their name yet.
				names, _ := filepath.Glob(filepath.Join(dir, "*"))
				for _, name := range names {
					is := lifeOf(name)
					// On Windows one that is released is not removed at once.
					if is == lifeDead && filepath.Base(name)[0] != '.' && runtime.GOOS != "windows" {
						t.Error("taken for dead:", name)
					}
					buryLife(name)
				}
			}
		})
	}
	for i := range 200 {
		path := filepath.Join(dir, fmt.Sprint("life", i))
		life, err := holdLife(path)
		if err != nil {
			t.Error(err)
			break
		}
		wantLife(t, path, lifeAlive)
		if err := life.release(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	all.Wait()
}

func TestLifeOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	wantLife(t, dir, lifeUnknown)
	buryLife(dir)
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantLife(t, target, lifeDead) // as a dead one left it
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	if runtime.GOOS != "windows" {
		wantLife(t, link, lifeUnknown)
	}
	if _, err := holdLife(link); !errors.Is(err, os.ErrExist) {
		t.Errorf("held through a link: %v", err)
	}
	wantLife(t, target, lifeDead)
}

// Nobody takes another that looks for the owner.
func TestLifeOfDeadWhileOthersLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "life")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300 {
				if is := lifeOf(path); is != lifeDead {
					t.Errorf("%v", is)
					return
				}
			}
		})
	}
	all.Wait()
}
