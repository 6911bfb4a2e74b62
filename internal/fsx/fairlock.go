package fsx

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ErrLockTimeout says that another process or FairLock held the lock for the whole wait.
var ErrLockTimeout = errors.New("timed out waiting for the lock")

const (
	// burstFor is how long a process may lock again and again while others wait. Handing
	// over costs as much as several transactions: without bursts, two processes together
	// run at half to three quarters of the speed of one.
	burstFor = 1500 * time.Microsecond

	// tryEvery is how often a waiter tries the lock out of turn, in case that the process
	// before it in the queue is stopped.
	tryEvery = 50 * time.Millisecond
)

// FairLock is a lock between processes, and between several FairLocks of one process, that
// is handed over in the order of arrival. The kernel drops it with the process. The file
// is never removed, or two processes could hold the lock.
//
// A file lock alone is not fair: a process that unlocks it has locked it again before a
// waiter is awake. So there is a second file, the queue. A process locks the queue, then
// the file, then unlocks the queue; a process that waits for the file holds the queue. A
// process that got the lock less than burstFor ago goes past the queue.
//
// A wait in the kernel cannot be interrupted, so a goroutine does the waiting, and may
// outlast the call that started it. It has an open file of its own, so that Lock can
// still try.
//
// One goroutine at a time may use Lock and Unlock; the other methods are safe beside them.
type FairLock struct {
	path              string
	info              os.FileInfo
	file, same, queue *os.File

	mu      sync.Mutex
	closed  bool
	held    *os.File   // which of file and same is locked, nil for neither
	began   time.Time  // when the burst began
	waiting bool       // a goroutine waits, with same and queue
	result  chan error // where that goroutine reports; nil once the call has given up
}

// OpenFairLock opens the lock at path, and creates it where it is missing. The queue is
// beside it, at path + "-queue". The error is ErrNotRegular where either is a symbolic
// link, a folder or a device. Close the lock when it is no longer needed.
func OpenFairLock(path string) (*FairLock, error) {
	l := &FairLock{path: path}
	var err error
	for _, open := range []struct {
		file **os.File
		path string
	}{{&l.file, path}, {&l.same, path}, {&l.queue, path + "-queue"}} {
		if *open.file, err = openLockFile(open.path); err != nil {
			l.Close()
			return nil, fmt.Errorf("open lock: %w", err)
		}
	}
	if l.info, err = l.file.Stat(); err == nil {
		err = errors.Join(leadsTo(path, l.info), standsAt(path, l.same))
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return l, nil
}

// openLockFile opens a file to lock, and creates it where it is missing.
func openLockFile(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|openNoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	if err := standsAt(path, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// standsAt returns an error unless path leads to the open file and that is regular.
func standsAt(path string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return leadsTo(path, info)
}

// leadsTo returns an error unless path leads to the given file and that is regular.
func leadsTo(path string, file os.FileInfo) error {
	found, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !found.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, ErrNotRegular)
	case !os.SameFile(found, file):
		return fmt.Errorf("%s: replaced by another file", path)
	}
	return nil
}

// InPlace returns an error once path does not lead to the open lock, because the file was
// moved, removed or replaced. Other processes then do not see that the lock is held.
func (l *FairLock) InPlace() error {
	if err := leadsTo(l.path, l.info); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// Lock waits for the lock, for at most the given time, and returns ErrLockTimeout then.
// With a time of zero or less it only tries. It returns an error that wraps
// os.ErrClosed once the lock is closed.
func (l *FairLock) Lock(most time.Duration) error {
	result, err := l.start()
	if result == nil {
		return err
	}
	over := time.NewTimer(most)
	defer over.Stop()
	try := time.NewTicker(tryEvery)
	defer try.Stop()
	for {
		select {
		case err := <-result:
			return err
		case <-try.C:
			if l.tryOnce(result) {
				return nil
			}
		case <-over.C:
			if l.tryOnce(result) {
				return nil
			}
			return l.giveUp(result)
		}
	}
}

// start takes the lock if nobody else wants it. Otherwise a goroutine waits for it, and
// sends to result.
func (l *FairLock) start() (result chan error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("lock %s: %w", l.path, os.ErrClosed)
	}
	if time.Since(l.began) < burstFor {
		if ok, err := tryLockFile(l.file); ok || err != nil {
			return nil, l.got(l.file, err)
		}
	}
	l.result = make(chan error, 1)
	if l.waiting {
		return l.result, nil
	}
	queued, err := tryLockFile(l.queue)
	if err != nil {
		return nil, l.got(nil, err)
	}
	if queued {
		if ok, err := tryLockFile(l.file); ok || err != nil {
			unlockFile(l.queue)
			return nil, l.begin(l.file, err)
		}
	}
	l.waiting = true
	go l.wait(queued)
	return l.result, nil
}

// wait waits in the queue, unless it already is the first there, and for the lock. If the
// call has given up by then, it gives the lock back.
func (l *FairLock) wait(queued bool) {
	var err error
	if !queued {
		err = lockFile(l.queue)
	}
	if err == nil {
		err = lockFile(l.same)
		unlockFile(l.queue)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	switch result := l.result; {
	case l.closed:
		l.same.Close()
		l.queue.Close()
	case result != nil:
		result <- l.begin(l.same, err)
	case err == nil:
		unlockFile(l.same)
	}
}

// begin notes that a burst begins with the lock on f, or that there was an error.
func (l *FairLock) begin(f *os.File, err error) error {
	l.began = time.Now()
	return l.got(f, err)
}

// got ends the wait of a call with the lock on f, or with an error.
func (l *FairLock) got(f *os.File, err error) error {
	l.result = nil
	if err != nil {
		return fmt.Errorf("lock %s: %w", l.path, err)
	}
	l.held = f
	return nil
}

// tryOnce takes the lock if it is free, past the queue.
func (l *FairLock) tryOnce(result chan error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result != result {
		return false // there is a result
	}
	ok, err := tryLockFile(l.file)
	if !ok || err != nil {
		return false
	}
	return l.begin(l.file, nil) == nil
}

// giveUp ends a call without the lock. Its goroutine goes on waiting, and the next call
// takes over its place in the queue.
func (l *FairLock) giveUp(result chan error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result != result {
		return <-result
	}
	l.result = nil
	return ErrLockTimeout
}

// Unlock gives the lock back. It is an error to unlock what is not locked.
func (l *FairLock) Unlock() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held
	if held == nil {
		return fmt.Errorf("unlock %s: not locked", l.path)
	}
	l.held = nil
	if err := unlockFile(held); err != nil {
		return fmt.Errorf("unlock %s: %w", l.path, err)
	}
	return nil
}

// Close drops the lock if it is held, and ends a call of Lock that waits. A goroutine that
// still waits closes its own files. Closing twice is harmless.
func (l *FairLock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.held = nil
	if result := l.result; result != nil {
		result <- l.got(nil, os.ErrClosed)
	}
	files := []*os.File{l.file, l.same, l.queue}
	if l.waiting {
		files = files[:1]
	}
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close lock: %w", err)
	}
	return nil
}
