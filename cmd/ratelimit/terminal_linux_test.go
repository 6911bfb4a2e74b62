package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"dappco.re/go/core/go-ratelimit"
)

// onTerminal starts the program on a terminal of its own. What is written to the terminal is typed.
func onTerminal(t testing.TB, arguments ...string) (s *started, terminal *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	var number, unlocked int32
	for request, to := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), request, uintptr(unsafe.Pointer(to))); errno != 0 {
			t.Fatal(errno)
		}
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s = &started{command(t, arguments...), new(output), new(output), make(chan struct{})}
	s.Stdin, s.Stdout, s.Stderr = slave, slave, slave
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	go func() {
		s.Wait() //nolint:errcheck // its status is asked for
		close(s.ended)
	}()
	go terminal.WriteTo(s.out) //nolint:errcheck // it fails once nobody has the terminal
	t.Cleanup(func() {
		s.Process.Kill() //nolint:errcheck // it may have ended
		<-s.ended
		terminal.Close()
	})
	return s, terminal
}

// On a terminal a person is asked before something is lost.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer string
		status int
		left   int // charged requests
	}{{"y\n", 0, 0}, {"YES\n", 0, 0}, {"n\n", 1, 1}, {"\n", 1, 1}, {"\x04", 1, 1}} {
		db := spentAndFull(t)
		s, terminal := onTerminal(t, "reset", "full", "--db", db)
		s.out.waitFor(t, `reset forgets what "full" has used .*\. Go on\? \[y/N\] `)
		terminal.WriteString(test.answer) //nolint:errcheck // the status tells
		if status := s.status(t); status != test.status {
			t.Errorf("answer %q: status %d, %s", test.answer, status, s.out)
		}
		if got := looked(t, db, "full").Next.Stats.RPM; got != test.left {
			t.Errorf("answer %q: %d requests are charged", test.answer, got)
		}
	}
}

// Ctrl-C reaches the command once: from the terminal, and not from run as well.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}})
	counts := filepath.Join(t.TempDir(), "counts")
	s, terminal := onTerminal(t, "run", "m", "--db", db, "--",
		"bash", "-c", `trap 'echo >>"$0"' INT; echo ready; read a; read a; wc -l <"$0"; exit 5`, counts)
	s.out.waitFor(t, "ready")
	terminal.WriteString("\x03") //nolint:errcheck // what follows tells
	s.out.waitFor(t, `\^C`)
	terminal.WriteString("a\nb\n") //nolint:errcheck // likewise
	if status := s.status(t); status != 5 {
		t.Errorf("status %d, %s", status, s.out)
	}
	s.out.waitFor(t, `(?m)^1\s*$`)
}
