package ratelimit

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

// fileLockLong is how long is waited for what has to happen at some time.
const fileLockLong = time.Minute

// TestFileLockChild is no test: it is what the child processes do. They end when
// there is nothing to read any more.
func TestFileLockChild(t *testing.T) {
	what := os.Getenv(fileLockChildEnv)
	if what == "" {
		t.Skip("only in child processes")
	}
	path := os.Args[len(os.Args)-1]
	in := bufio.NewReader(os.Stdin)
	switch what {
	case "life":
		if _, err := holdLife(path); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
	case "lock":
		l := turnLockAt(t, path)
		fmt.Println("waits")
		if err := l.lock(fileLockLong); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
	case "count":
		l := turnLockAt(t, path)
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

// fileLockChild starts this test binary as another process, and returns what it
// says.
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

func turnLockAt(t *testing.T, path string) *turnLock {
	t.Helper()
	l, err := openTurnLock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.close() })
	return l
}

func mustLock(t *testing.T, l *turnLock) {
	t.Helper()
	if err := l.lock(fileLockLong); err != nil {
		t.Fatal(err)
	}
}

func mustUnlock(t *testing.T, l *turnLock) {
	t.Helper()
	if err := l.unlock(); err != nil {
		t.Fatal(err)
	}
}

const fileLockCounts = 300

// countLocked adds one to the number in a file, so that two at once would lose
// one.
func countLocked(t *testing.T, l *turnLock, path string) {
	if err := l.lock(fileLockLong); err != nil {
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
	if err := l.unlock(); err != nil {
		t.Error(err)
	}
}

func TestTurnLockExcludesInOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var all sync.WaitGroup
	for range 4 {
		l := turnLockAt(t, path)
		all.Go(func() {
			for range fileLockCounts {
				countLocked(t, l, path+"-count")
			}
		})
	}
	all.Wait()
	wantCount(t, path, 4*fileLockCounts)
}

func TestTurnLockExcludesProcesses(t *testing.T) {
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
	l := turnLockAt(t, path)
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

func TestTurnLockOfKilledProcessIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := turnLockAt(t, path)
	cmd, _, said := fileLockChild(t, "lock", path)
	wantSaid(t, said, "waits")
	wantSaid(t, said, "held")
	if err := l.lock(0); err != errLockTimeout {
		t.Fatalf("locked while the child holds it: %v", err)
	}
	kill(t, cmd)
	mustLock(t, l)
	mustUnlock(t, l)
	if err := l.inPlace(); err != nil {
		t.Error(err)
	}
}

// One that is killed while it waits leaves nothing in the way either.
func TestTurnLockAfterKilledWaiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := turnLockAt(t, path)
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

// Who had its turns lets the one that waits have the lock, however soon it wants
// it again.
func TestTurnLockHandsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b := turnLockAt(t, path), turnLockAt(t, path)
	for range 50 {
		mustLock(t, a)
		got := make(chan error)
		go func() {
			got <- b.lock(fileLockLong)
			got <- b.unlock()
		}()
		waitQueued(t, path)
		a.began = time.Now().Add(-turnsFor)
		mustUnlock(t, a)
		// The goroutine of b may not be awake yet. Were it not for the queue, a
		// would have the lock again, and b not, until a unlocks it.
		again := make(chan error)
		go func() { again <- a.lock(fileLockLong) }()
		select {
		case err := <-got:
			if err != nil {
				t.Fatal(err)
			}
		case err := <-again:
			t.Fatalf("a has the lock again before b had it: %v", err)
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

// Within its time, one may go past the queue.
func TestTurnLockTakesTurnsInARow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := turnLockAt(t, path)
	mustLock(t, l)
	mustUnlock(t, l)
	queue := lockedFile(t, path+"-queue")
	l.began = time.Now().Add(time.Hour)
	if err := l.lock(0); err != nil {
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
func TestTurnLockBehindStoppedWaiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l := turnLockAt(t, path)
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
func noneWaits(t *testing.T, l *turnLock) {
	t.Helper()
	eventually(t, "the goroutine ends", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.waiting
	})
}

func TestTurnLockTimeout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b, c := turnLockAt(t, path), turnLockAt(t, path), turnLockAt(t, path)
	mustLock(t, a)
	for _, most := range []time.Duration{-1, 0, 1, time.Millisecond} {
		if err := b.lock(most); err != errLockTimeout {
			t.Errorf("%v: %v", most, err)
		}
	}
	if !b.waiting {
		t.Error("nothing waits")
	}
	if err := b.unlock(); err == nil {
		t.Error("unlocked what it does not hold")
	}
	// What b still waits for, the next call gets.
	got := make(chan error)
	go func() { got <- b.lock(fileLockLong) }()
	eventually(t, "b wants the lock", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.result != nil
	})
	mustUnlock(t, a)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	// And what nobody wants any more, nobody holds.
	if err := c.lock(0); err != errLockTimeout {
		t.Fatal(err)
	}
	mustUnlock(t, b)
	noneWaits(t, c)
	mustLock(t, a)
	mustUnlock(t, a)
}

func TestTurnLockClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b, c := turnLockAt(t, path), turnLockAt(t, path), turnLockAt(t, path)
	mustLock(t, a)
	if err := b.lock(0); err != errLockTimeout {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- c.lock(fileLockLong) }()
	eventually(t, "c waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.result != nil
	})
	for _, l := range []*turnLock{b, b, c, c} {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-got; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the call that waited: %v", err)
	}
	if err := a.close(); err != nil { // which unlocks
		t.Error(err)
	}
	for _, l := range []*turnLock{a, b, c} {
		if err := l.lock(0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("lock after close: %v", err)
		}
		if err := l.unlock(); err == nil {
			t.Error("unlock after close")
		}
		noneWaits(t, l)
		for _, f := range []*os.File{l.file, l.same, l.queue} {
			if f.Fd() != ^uintptr(0) {
				t.Errorf("%s is open", f.Name())
			}
		}
	}
	d := turnLockAt(t, path)
	mustLock(t, d)
}

func TestTurnLockInPlace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there nobody can remove an open file")
	}
	path := filepath.Join(t.TempDir(), "lock")
	l := turnLockAt(t, path)
	if err := l.inPlace(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := l.inPlace(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	turnLockAt(t, path)
	if err := l.inPlace(); err == nil {
		t.Error("not seen that it was replaced")
	}
}

func TestTurnLockRefusesWhatIsNoFile(t *testing.T) {
	for _, suffix := range []string{"", "-queue"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "folder")
		if err := os.Mkdir(path+suffix, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := openTurnLock(path); !errors.Is(err, errNotRegular) {
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
			if _, err := openTurnLock(path); !errors.Is(err, errNotRegular) {
				t.Errorf("link to %s: %v", target, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, "missing")); err == nil {
			t.Error("created what the link leads to")
		}
	}
	if _, err := openTurnLock(filepath.Join(t.TempDir(), "no", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestTurnLockFilesAreTheOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such permissions")
	}
	path := filepath.Join(t.TempDir(), "lock")
	turnLockAt(t, path)
	for _, name := range []string{path, path + "-queue"} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
}

// In a bubble, with a lock from outside it.
func TestTurnLockInBubble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	outside := turnLockAt(t, path)
	synctest.Test(t, func(t *testing.T) {
		a, b := turnLockAt(t, path), turnLockAt(t, path)
		var all sync.WaitGroup
		for _, l := range []*turnLock{a, b, outside} {
			all.Go(func() {
				for range 50 {
					mustLock(t, l)
					mustUnlock(t, l)
				}
			})
		}
		all.Wait()
		mustLock(t, a)
		if err := b.lock(-1); err != errLockTimeout {
			t.Error(err)
		}
		mustUnlock(t, a)
	})
	mustLock(t, outside)
	mustUnlock(t, outside)
}

// Many that give up and many that do not, with locks that close meanwhile.
func TestTurnLockAtRandom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	var held sync.Mutex
	for i := range 6 {
		all.Go(func() {
			for j := range 20 {
				l, err := openTurnLock(path)
				if err != nil {
					t.Error(err)
					return
				}
				for k := range 10 {
					switch err := l.lock(time.Duration(i*j*k) * time.Microsecond); {
					case err == nil:
						if !held.TryLock() {
							t.Error("two hold the lock")
							return
						}
						runtime.Gosched()
						held.Unlock()
						if err := l.unlock(); err != nil {
							t.Error(err)
						}
					case err != errLockTimeout:
						t.Error(err)
					}
				}
				if err := l.close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func BenchmarkTurnLock(b *testing.B) {
	l, err := openTurnLock(filepath.Join(b.TempDir(), "lock"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.close()
	for b.Loop() {
		if err := errors.Join(l.lock(time.Second), l.inPlace(), l.unlock()); err != nil {
			b.Fatal(err)
		}
	}
}
