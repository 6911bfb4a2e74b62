package redistest

import (
	"os"
	"testing"
)

// Stop stops a process as kill -STOP does. It needs Linux.
func Stop(t testing.TB, p *os.Process) {
	t.Helper()
	if err := p.Signal(stopSignal); err != nil {
		t.Fatal(err)
	}
}

// Continue ends a Stop.
func Continue(t testing.TB, p *os.Process) {
	t.Helper()
	if err := p.Signal(continueSignal); err != nil {
		t.Fatal(err)
	}
}
