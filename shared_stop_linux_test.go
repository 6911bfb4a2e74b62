//go:build !nosqlite

package ratelimit_test

import (
	"os"
	"syscall"
)

// sharedStop stops a process, as Ctrl-Z does, and sharedContinue lets it go on.
func sharedStop(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func sharedContinue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
