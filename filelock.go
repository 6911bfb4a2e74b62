package ratelimit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

var errLockTimeout = errors.New("timed out waiting for the lock")

const (
	// turnsFor is how long a process takes turn after turn while others wait.
	// To hand over costs as much as several transactions: without this, two
	// processes together are at half to three quarters of the speed of one.
	turnsFor = 1500 * time.Microsecond

	// tryEvery is how often one that waits looks whether the lock is free
	// although its turn has not come, because the one before it is stopped.
	tryEvery = 50 * time.Millisecond
)

// turnLock is a lock on a file that processes take turns by. The kernel drops it
// with the process. The file is never removed, or two could hold the lock.
//
// A lock alone is not fair: whoever unlocks it has locked it again before the
// one that waits is awake. So there is a second file, the queue. One locks the
// queue, then the file, then unlocks the queue, and whoever waits for the file
// holds the queue. One that had its turn a moment ago, less than turnsFor, goes
// past the queue.
//
// Nothing can interrupt one who waits in the kernel, so a goroutine does that,
// which may outlast the call that it was started for. It has an open file of its
// own, so that lock can still try.
type turnLock struct {
	path              string
	info              os.FileInfo
	file, same, queue *os.File

	mu      sync.Mutex
	closed  bool
	held    *os.File   // which of file and same is locked, nil for neither
	began   time.Time  // when the turns began
	waiting bool       // a goroutine waits, with same and queue
	result  chan error // where it is to tell, nil if nobody wants to know any more
}

// openTurnLock opens the lock at path, and creates it where it is missing. The
// queue is beside it.
func openTurnLock(path string) (*turnLock, error) {
	l := &turnLock{path: path}
	var err error
	for _, open := range []struct {
		file **os.File
		path string
	}{{&l.file, path}, {&l.same, path}, {&l.queue, path + "-queue"}} {
		if *open.file, err = openLockFile(open.path); err != nil {
			l.close()
			return nil, fmt.Errorf("open lock: %w", err)
		}
	}
	if l.info, err = l.file.Stat(); err == nil {
		err = errors.Join(leadsTo(path, l.info), standsAt(path, l.same))
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return l, nil
}

// openLockFile opens a file to lock, and creates it where it is missing.
func openLockFile(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNotRegular)
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

// standsAt returns an error unless path is that of the open file, and the file a
// regular one.
func standsAt(path string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return leadsTo(path, info)
}

func leadsTo(path string, file os.FileInfo) error {
	found, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !found.Mode().IsRegular():
		return fmt.Errorf("%s: %w", path, errNotRegular)
	case !os.SameFile(found, file):
		return fmt.Errorf("%s: replaced by another file", path)
	}
	return nil
}

// inPlace returns an error once the path leads to the open lock no more. Others
// then do not see that it is held.
func (l *turnLock) inPlace() error {
	if err := leadsTo(l.path, l.info); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// lock waits for the lock, for as long as most, and returns errLockTimeout then.
// Only one goroutine at a time may use it.
func (l *turnLock) lock(most time.Duration) error {
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

// start takes the lock if nobody else wants it, and otherwise has a goroutine
// wait for it, which sends to result.
func (l *turnLock) start() (result chan error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("lock %s: %w", l.path, os.ErrClosed)
	}
	if time.Since(l.began) < turnsFor {
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

// wait waits in the queue, unless it is the first there already, and for the
// lock. If nobody wants the lock by then, it gives it back.
func (l *turnLock) wait(queued bool) {
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

// begin notes that turns begin with the lock on f, or that there was an error.
func (l *turnLock) begin(f *os.File, err error) error {
	l.began = time.Now()
	return l.got(f, err)
}

func (l *turnLock) got(f *os.File, err error) error {
	l.result = nil
	if err != nil {
		return fmt.Errorf("lock %s: %w", l.path, err)
	}
	l.held = f
	return nil
}

// tryOnce takes the lock if it is free, past the queue.
func (l *turnLock) tryOnce(result chan error) bool {
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

// giveUp leaves the goroutine that waits to itself.
func (l *turnLock) giveUp(result chan error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result != result {
		return <-result
	}
	l.result = nil
	return errLockTimeout
}

func (l *turnLock) unlock() error {
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

// close drops the lock if it is held, and ends a call of lock that waits. The
// goroutine that waits closes what it waits with.
func (l *turnLock) close() error {
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
