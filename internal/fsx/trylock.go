package fsx

import "os"

// TryLock locks an open file until it is closed, and does not wait: it returns false if another
// process or open file holds the lock. The error is errors.ErrUnsupported where the system has no
// such locks.
func TryLock(f *os.File) (ok bool, err error) { return tryLockFile(f) }
