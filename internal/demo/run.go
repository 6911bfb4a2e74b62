package demo

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// again is how long after a signal further ones ask for the same: timeout(1) signals a program, and
// then its process group. A later one, such as a second Ctrl-C, ends the program the hard way.
const again = time.Second

// ends are the signals that end a program: Ctrl-C, what kill and timeout send, and the end of the
// terminal, unless the program was started with nohup.
func ends() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// Run runs a program that writes to standard output. The context ends with Ctrl-C, SIGTERM and
// SIGHUP, and when nobody reads the output any more, as after | head: the program has to clean up
// then.
func Run(program func(ctx context.Context, out io.Writer) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), ends()...)
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(again, stop) })
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write fails, and ends no process
	return program(ctx, output{os.Stdout, cancel})
}

// output is a file that calls gone when it cannot be written.
type output struct {
	file *os.File
	gone func()
}

func (o output) Stat() (os.FileInfo, error) { return o.file.Stat() }

func (o output) Write(p []byte) (n int, err error) {
	if n, err = o.file.Write(p); err != nil {
		o.gone()
	}
	return n, err
}

// IsTerminal reports whether out is a terminal, as far as the standard library can tell: a
// character device.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// LeaveEndToParent has a child process pass over the signals of [Run], which go to all processes of
// a group: its parent ends it.
func LeaveEndToParent() {
	// Not signal.Ignore, which a process that it starts would inherit.
	signal.Notify(make(chan os.Signal, 1), ends()...)
}
