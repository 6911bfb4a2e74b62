// Package child runs a command as env(1), flock(1) and timeout(1) do: with the files of the
// program, its signals, and its status at the end.
package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// The statuses for a command that cannot be run, as those of env(1).
const (
	NotExecutable = 126
	NotFound      = 127
)

// BySignal is the status of a command that a signal ended, but for the number of the signal.
const BySignal = 128

// Error says why a command cannot be run.
type Error struct {
	Status int // NotExecutable or NotFound
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Find returns the file of a command. The error is an *Error.
func Find(name string) (path string, err error) {
	path, err = exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist):
		return "", &Error{NotExecutable, err}
	case !strings.ContainsRune(name, filepath.Separator):
		for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
			if is, err := os.Stat(filepath.Join(folder, name)); err == nil && !is.IsDir() {
				return "", &Error{NotExecutable, fmt.Errorf("%s: %w", filepath.Join(folder, name), fs.ErrPermission)}
			}
		}
	}
	return "", &Error{NotFound, err}
}

// Command is a command to be run.
type Command struct {
	Path, Name string   // its file, and what it is called
	Arguments  []string // without its name
	Stdin      *os.File
	Stdout     *os.File
	Stderr     *os.File
}

// Run runs the command to its end, passes signals on to it, and returns its status. An error that
// is an *Error says that it was not run.
func (c *Command) Run(signals *Signals) (status int, err error) {
	cmd := c.cmd(c.Path, c.Arguments)
	err = cmd.Start()
	if errors.Is(err, syscall.ENOEXEC) && runtime.GOOS != "windows" { // a script without #!, as execvp(3) runs it
		cmd = c.cmd("/bin/sh", append([]string{c.Path}, c.Arguments...))
		err = cmd.Start()
	}
	if err != nil {
		return 0, &Error{NotExecutable, err}
	}
	stop := signals.passTo(cmd.Process)
	err = cmd.Wait()
	stop()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return statusOf(cmd.ProcessState), nil
}

func (c *Command) cmd(path string, arguments []string) *exec.Cmd {
	return &exec.Cmd{
		Path: path, Args: append([]string{c.Name}, arguments...),
		Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
	}
}
