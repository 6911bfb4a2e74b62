package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// fakeClock sets the wall clock of a server. Its monotonic clock stays as it is.
type fakeClock struct {
	ahead   time.Duration
	library string
	file    *os.File // two numbers of microseconds, which the server has in its memory
}

// Ahead starts the server with a clock that is ahead of the machine's, or behind it if d is below
// zero. SetAhead changes that. The test is skipped where no C compiler is in PATH.
func Ahead(d time.Duration) Option {
	return func(s *Server) { s.clock = &fakeClock{ahead: d} }
}

// SetAhead has the clock of a server that was started with Ahead jump, and go.
func (s *Server) SetAhead(d time.Duration) { s.setClock(d, 0) }

// SetTime has the clock of a server that was started with Ahead jump to an instant, after the Unix
// epoch, and stand still there.
func (s *Server) SetTime(at time.Time) { s.setClock(0, at.UnixMicro()) }

func (s *Server) setClock(ahead time.Duration, instant int64) {
	s.t.Helper()
	if s.clock == nil {
		s.t.Fatal("the server was started without Ahead")
	}
	s.clock.set(s.t, ahead, instant)
}

// prepare compiles the library that moves the clock, and makes its file.
func (c *fakeClock) prepare(t testing.TB, dir string) {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("cc is not in PATH: tests with a skewed server are left out")
	}
	source := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatal(err)
	}
	c.library = filepath.Join(dir, "clock.so")
	if out, err := exec.Command(compiler, "-O1", "-shared", "-fPIC", "-o", c.library, source).CombinedOutput(); err != nil {
		t.Skipf("cc cannot make a library: tests with a skewed server are left out: %v\n%s", err, out)
	}
	if c.file, err = os.Create(filepath.Join(dir, "clock")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.file.Close() })
	c.set(t, c.ahead, 0)
}

func (c *fakeClock) set(t testing.TB, ahead time.Duration, instant int64) {
	t.Helper()
	numbers := binary.NativeEndian.AppendUint64(nil, uint64(ahead.Microseconds()))
	numbers = binary.NativeEndian.AppendUint64(numbers, uint64(instant))
	if _, err := c.file.WriteAt(numbers, 0); err != nil {
		t.Fatal(err)
	}
}

func (c *fakeClock) environ() []string {
	return []string{"LD_PRELOAD=" + c.library, "REDISTEST_CLOCK=" + c.file.Name()}
}
