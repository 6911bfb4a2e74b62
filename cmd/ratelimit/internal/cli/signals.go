package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// onSignal calls stop for the first SIGINT or SIGTERM, until release is called. A second one ends
// the program at once. That is so, too, where a shell script has started it with "&", which ignores
// SIGINT: whoever presses Ctrl-C means all that the script runs.
func onSignal(stop func(syscall.Signal)) (release func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	ignored := signal.Ignored(os.Interrupt)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	next := func() (s syscall.Signal) {
		select {
		case caught := <-signals:
			s, _ = caught.(syscall.Signal)
		case <-done:
		}
		return s
	}
	go func() {
		first := next()
		if first == 0 {
			return
		}
		if !ignored {
			signal.Stop(signals)
		}
		stop(first)
		if second := next(); second != 0 {
			os.Exit(exitBySignal + int(second))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
