package redistest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Kill ends the process as kill -9 does, and returns when it is gone: its port then refuses. A
// server that does not run stays as it is.
func (s *Server) Kill() { s.end() }

// Pause stops the process as kill -STOP does: its connections stay, and nothing answers. It needs
// Linux.
func (s *Server) Pause() { s.signal(stopSignal) }

// Resume ends a Pause.
func (s *Server) Resume() { s.signal(continueSignal) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatalf("redis-server %s does not run", s.Addr())
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v to redis-server %s: %v", sig, s.Addr(), err)
	}
}

// RestartEmpty starts the server again on its port, with nothing in it. It kills a server that
// runs.
func (s *Server) RestartEmpty() {
	s.t.Helper()
	s.end()
	if err := os.Remove(filepath.Join(s.dir, "dump.rdb")); err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	s.again()
}

// RestartKept kills the server and starts it again with all that it had.
func (s *Server) RestartKept() {
	s.t.Helper()
	s.Do("SAVE")
	s.RestartSaved()
}

// RestartSaved is RestartKept for a server that may be killed already: it has what it had at the
// last SAVE.
func (s *Server) RestartSaved() {
	s.t.Helper()
	s.end()
	s.again()
}

func (s *Server) again() {
	s.t.Helper()
	if err := s.run(); err != nil {
		s.t.Fatalf("start redis-server again: %v", err)
	}
}

// SetConfig adds lines to the configuration that the server's next start reads.
func (s *Server) SetConfig(lines ...string) { s.lines = append(s.lines, lines...) }

// RestartLoading is RestartSaved that does not wait until the server has loaded its data. The
// function that it returns reports whether the server still does.
func (s *Server) RestartLoading() (loading func() bool) {
	s.t.Helper()
	s.loading = true
	defer func() { s.loading = false }()
	s.RestartSaved()
	return func() bool {
		return strings.Contains(s.text("INFO", "persistence"), "\nloading:1")
	}
}
