package child

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/terminal"
)

// Signals are those that the program gets from its start on. They end a wait, or go on to the
// command.
type Signals struct{ came chan os.Signal }

// Catch begins to catch signals. One that the program was started to ignore, as by nohup(1), is
// left alone, so that the command ignores it, too.
func Catch() *Signals {
	s := &Signals{make(chan os.Signal, 16)}
	for _, is := range caught {
		if !signal.Ignored(is) {
			signal.Notify(s.came, is)
		}
	}
	return s
}

// Stop has signals do again what they do by themselves.
func (s *Signals) Stop() { signal.Stop(s.came) }

// Ended says which signal ended a wait.
type Ended struct{ Signal os.Signal }

func (e *Ended) Error() string { return fmt.Sprintf("ended by a signal: %v", e.Signal) }

// Status is what a program returns that the signal ended.
func (e *Ended) Status() int { return BySignal + numberOf(e.Signal) }

// Wait runs a wait, whose context a signal ends. Wait then returns an *Ended, also if the wait
// succeeded in the same moment.
func (s *Signals) Wait(ctx context.Context, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := s.each(func(is os.Signal) { cancel(&Ended{is}) })
	err := wait(ctx)
	stop()
	if ended, is := context.Cause(ctx).(*Ended); is {
		return ended
	}
	return err
}

// passTo passes signals on to a process, until the function is called that it returns. A terminal
// sends those of its keys to the command itself.
func (s *Signals) passTo(process *os.Process) (stop func()) {
	return s.each(func(is os.Signal) {
		if isOfKeys(is) && terminal.InForeground() {
			return
		}
		process.Signal(is) //nolint:errcheck // it may have ended
	})
}

// each calls a function with each signal, until the function is called that it returns.
func (s *Signals) each(do func(os.Signal)) (stop func()) {
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case is := <-s.came:
				do(is)
			case <-end:
				return
			}
		}
	})
	return func() {
		close(end)
		running.Wait()
	}
}
