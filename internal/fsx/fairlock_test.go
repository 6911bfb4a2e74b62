package fsx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const fileLockChildEnv = "RATELIMIT_FILELOCK_CHILD"

// fileLockLong is how long a test waits for an event that must come.
const fileLockLong = time.Minute

// TestFileLockChild is no test: it is the program of the child processes. They end at the
// end of their input.
func TestFileLockChild(t *testing.T) {
	what := os.Getenv(fileLockChildEnv)
	if what == "" {
		t.Skip("only in child processes")
	}
	path := os.Args[len(os.Args)-1]
	in := bufio.NewReader(os.Stdin)
	switch what {
	case "life":
		if _, err := HoldLife(path); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
	case "lock":
		l := fairLockAt(t, path)
		fmt.Println("waits")
		if err := l.Lock(fileLockLong); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
	case "count":
		l := fairLockAt(t, path)
		fmt.Println("ready")
		in.ReadString('\n')
		for range fileLockCounts {
			countLocked(t, l, path+"-count")
		}
		fmt.Println("done")
	}
	in.ReadString('\n')
	os.Exit(0)
}

// fileLockChild starts this test binary as another process, and returns what it says.
func fileLockChild(t *testing.T, what, path string) (cmd *exec.Cmd, in io.Writer, said func() string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestFileLockChild$", "-test.v=false", "--", path)
	cmd.Env = append(os.Environ(), fileLockChildEnv+"="+what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	return cmd, in, func() string {
		lines.Scan()
		return lines.Text()
	}
}

func wantSaid(t *testing.T, said func() string, want string) {
	t.Helper()
	if got := said(); got != want {
		t.Fatalf("the child said %q, want %q", got, want)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

// eventually waits for something that another process, or goroutine, does.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for started := time.Now(); !happened(); time.Sleep(time.Millisecond) {
		if time.Since(started) > fileLockLong {
			t.Fatalf("never: %s", what)
		}
	}
}

func fairLockAt(t *testing.T, path string) *FairLock {
	t.Helper()
	l, err := OpenFairLock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustLock(t *testing.T, l *FairLock) {
	t.Helper()
	if err := l.Lock(fileLockLong); err != nil {
		t.Fatal(err)
	}
}

func mustUnlock(t *testing.T, l *FairLock) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

const fileLockCounts = 300

// countLocked adds one to the number in a file. Two at once would lose a count.
func countLocked(t *testing.T, l *FairLock, path string) {
	if err := l.Lock(fileLockLong); err != nil {
		t.Error(err)
		return
	}
	var n int
	text, _ := os.ReadFile(path)
	fmt.Sscan(string(text), &n)
	runtime.Gosched()
	if err := os.WriteFile(path, []byte(fmt.Sprint(n+1)), 0o600); err != nil {
		t.Error(err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestFairLockExcludesInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var all sync.WaitGroup
	for range 4 {
		l := fairLockAt(t, path)
		all.Go(func() {
			for range fileLockCounts {
				countLocked(t, l, path+"-count")
			}
		})
	}
	all.Wait()
	wantCount(t, path, 4*fileLockCounts)
}

func TestFairLockExcludesProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var ins []io.Writer
	var saids []func() string
	for range 3 {
		_, in, said := fileLockChild(t, "count", path)
		wantSaid(t, said, "ready")
		ins, saids = append(ins, in), append(saids, said)
	}
	for _, in := range ins {
		fmt.Fprintln(in)
	}
	l := fairLockAt(t, path)
	for range fileLockCounts {
		countLocked(t, l, path+"-count")
	}
	for _, said := range saids {
		wantSaid(t, said, "done")
	}
	wantCount(t, path, 4*fileLockCounts)
}

func wantCount(t *testing.T, path string, want int) {
	t.Helper()
	if text, err := os.ReadFile(path + "-count"); string(text) != fmt.Sprint(want) {
		t.Errorf("counted to %s, want %d (%v)", text, want, err)
	}
}

func TestFairLockOfKilledProcessIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := fairLockAt(t, path)
	cmd, _, said := fileLockChild(t, "lock", path)
	wantSaid(t, said, "waits")
	wantSaid(t, said, "held")
	if err := l.Lock(0); err != ErrLockTimeout {
		t.Fatalf("locked while the child holds it: %v", err)
	}
	kill(t, cmd)
	mustLock(t, l)
	mustUnlock(t, l)
	if err := l.InPlace(); err != nil {
		t.Error(err)
	}
}

// A process that is killed while it waits leaves nothing in the way either.
func TestFairLockAfterKilledWaiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := fairLockAt(t, path)
	mustLock(t, l)
	cmd, _, said := fileLockChild(t, "lock", path)
	wantSaid(t, said, "waits")
	waitQueued(t, path)
	kill(t, cmd)
	mustUnlock(t, l)
	l.began = time.Time{} // through the queue
	mustLock(t, l)
	mustUnlock(t, l)
}

// waitQueued waits until somebody is in the queue.
func waitQueued(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path+"-queue", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	eventually(t, "queue locked", func() bool {
		ok, err := tryLockFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			unlockFile(f)
		}
		return !ok
	})
}

// After its burst a process lets a waiter have the lock, however soon it wants it again.
func TestFairLockHandsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b := fairLockAt(t, path), fairLockAt(t, path)
	for range 50 {
		mustLock(t, a)
		got := make(chan error)
		go func() {
			got <- b.Lock(fileLockLong)
			got <- b.Unlock()
		}()
		waitQueued(t, path)
		a.began = time.Now().Add(-burstFor)
		mustUnlock(t, a)
		// The goroutine of b may not be awake yet. Were it not for the queue, a
		// would have the lock again, and b not, until a unlocks it.
		again, asked := make(chan error, 1), time.Now()
		go func() { again <- a.Lock(fileLockLong) }()
		select {
		case err := <-got:
			if err != nil {
				t.Fatal(err)
			}
		case err := <-again:
			if took := time.Since(asked); err != nil || took < tryEvery {
				t.Fatalf("a has the lock again after %v, before b had it: %v", took, err)
			}
			mustUnlock(t, a) // b was not scheduled for so long that a went out of turn
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			again <- nil
			mustLock(t, a)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, a)
	}
}

// Within its burst a process goes past the queue.
func TestFairLockGoesPastTheQueueInABurst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := fairLockAt(t, path)
	mustLock(t, l)
	mustUnlock(t, l)
	queue := lockedFile(t, path+"-queue")
	l.began = time.Now().Add(time.Hour)
	if err := l.Lock(0); err != nil {
		t.Fatal(err)
	}
	if l.waiting {
		t.Error("it waits in the queue")
	}
	mustUnlock(t, l)
	unlockFile(queue)
}

// lockedFile opens a file and locks it, as another process would.
func lockedFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if ok, err := tryLockFile(f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return f
}

// A stopped process stays the first in the queue. The lock is free all the same.
func TestFairLockBehindStoppedWaiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := fairLockAt(t, path)
	queue := lockedFile(t, path+"-queue")
	for range 3 {
		mustLock(t, l)
		if !l.waiting {
			t.Error("not in the queue")
		}
		mustUnlock(t, l)
		l.began = time.Time{}
	}
	unlockFile(queue)
	noneWaits(t, l)
	mustLock(t, l)
	mustUnlock(t, l)
}

// noneWaits waits until the goroutine of a lock is gone.
func noneWaits(t *testing.T, l *FairLock) {
	t.Helper()
	eventually(t, "the goroutine ends", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.waiting
	})
}

func TestFairLockTimeout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b, c := fairLockAt(t, path), fairLockAt(t, path), fairLockAt(t, path)
	mustLock(t, a)
	for _, most := range []time.Duration{-1, 0, 1, time.Millisecond} {
		if err := b.Lock(most); err != ErrLockTimeout {
			t.Errorf("%v: %v", most, err)
		}
	}
	if !b.waiting {
		t.Error("nothing waits")
	}
	if err := b.Unlock(); err == nil {
		t.Error("unlocked what it does not hold")
	}
	// The next call of b takes over the place in the queue.
	got := make(chan error)
	go func() { got <- b.Lock(fileLockLong) }()
	eventually(t, "b wants the lock", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.result != nil
	})
	mustUnlock(t, a)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	// A lock that comes after its call has given up is given back.
	if err := c.Lock(0); err != ErrLockTimeout {
		t.Fatal(err)
	}
	mustUnlock(t, b)
	noneWaits(t, c)
	mustLock(t, a)
	mustUnlock(t, a)
}

func TestFairLockClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b, c := fairLockAt(t, path), fairLockAt(t, path), fairLockAt(t, path)
	mustLock(t, a)
	if err := b.Lock(0); err != ErrLockTimeout {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- c.Lock(fileLockLong) }()
	eventually(t, "c waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.result != nil
	})
	for _, l := range []*FairLock{b, b, c, c} {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-got; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the call that waited: %v", err)
	}
	if err := a.Close(); err != nil { // which unlocks
		t.Error(err)
	}
	for _, l := range []*FairLock{a, b, c} {
		if err := l.Lock(0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("lock after close: %v", err)
		}
		if err := l.Unlock(); err == nil {
			t.Error("unlock after close")
		}
		noneWaits(t, l)
		for _, f := range []*os.File{l.file, l.same, l.queue} {
			if f.Fd() != ^uintptr(0) {
				t.Errorf("%s is open", f.Name())
			}
		}
	}
	d := fairLockAt(t, path)
	mustLock(t, d)
}

func TestFairLockInPlace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there nobody can remove an open file")
	}
	path := filepath.Join(t.TempDir(), "lock")
	l := fairLockAt(t, path)
	if err := l.InPlace(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := l.InPlace(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	fairLockAt(t, path)
	if err := l.InPlace(); err == nil {
		t.Error("not seen that it was replaced")
	}
}

func TestFairLockRefusesWhatIsNoFile(t *testing.T) {
	for _, suffix := range []string{"", "-queue"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "folder")
		if err := os.Mkdir(path+suffix, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFairLock(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("folder%s: %v", suffix, err)
		}
		for _, target := range []string{"target", "missing"} {
			if target == "target" {
				if err := os.WriteFile(filepath.Join(dir, target), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, "link-to-"+target)
			if err := os.Symlink(target, path+suffix); err != nil {
				t.Skip(err)
			}
			if _, err := OpenFairLock(path); !errors.Is(err, ErrNotRegular) {
				t.Errorf("link to %s: %v", target, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, "missing")); err == nil {
			t.Error("created what the link leads to")
		}
	}
	if _, err := OpenFairLock(filepath.Join(t.TempDir(), "no", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestFairLockFilesAreTheOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such permissions")
	}
	path := filepath.Join(t.TempDir(), "lock")
	fairLockAt(t, path)
	for _, name := range []string{path, path + "-queue"} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
}

// In a bubble, with a lock from outside it.
func TestFairLockInBubble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	outside := fairLockAt(t, path)
	synctest.Test(t, func(t *testing.T) {
		a, b := fairLockAt(t, path), fairLockAt(t, path)
		var all sync.WaitGroup
		for _, l := range []*FairLock{a, b, outside} {
			all.Go(func() {
				for range 50 {
					mustLock(t, l)
					mustUnlock(t, l)
				}
			})
		}
		all.Wait()
		mustLock(t, a)
		if err := b.Lock(-1); err != ErrLockTimeout {
			t.Error(err)
		}
		mustUnlock(t, a)
	})
	mustLock(t, outside)
	mustUnlock(t, outside)
}

// Some calls give up and some do not, and locks close meanwhile.
func TestFairLockAtRandom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	var held sync.Mutex
	for i := range 6 {
		all.Go(func() {
			for j := range 20 {
				l, err := OpenFairLock(path)
				if err != nil {
					t.Error(err)
					return
				}
				for k := range 10 {
					switch err := l.Lock(time.Duration(i*j*k) * time.Microsecond); {
					case err == nil:
						if !held.TryLock() {
							t.Error("two hold the lock")
							return
						}
						runtime.Gosched()
						held.Unlock()
						if err := l.Unlock(); err != nil {
							t.Error(err)
						}
					case err != ErrLockTimeout:
						t.Error(err)
					}
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func BenchmarkFairLock(b *testing.B) {
	l, err := OpenFairLock(filepath.Join(b.TempDir(), "lock"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		if err := errors.Join(l.Lock(time.Second), l.InPlace(), l.Unlock()); err != nil {
			b.Fatal(err)
		}
	}
}
