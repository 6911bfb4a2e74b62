// Package redistest starts Redis servers for tests, alone, as a Cluster and with Sentinel, and puts
// a proxy with faults between them and their clients. redisstore and redislimit test with it.
//
// The servers are processes on the loopback interface. They end with the test, and with the test
// binary on Linux, however that ends.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long the package waits for something that happens in no time. It is only there
// lest a test that fails hangs.
const patience = time.Minute

// Server is a redis-server process of its own. It keeps nothing on disk unless the test asks for
// that. Its methods are for one goroutine at a time; Addr and Port are for any.
type Server struct {
	t        testing.TB
	dir      string
	port     int
	lines    []string // of its configuration
	sentinel bool
	loading  bool // it need not have loaded its data to count as started
	clock    *fakeClock
	conn     *conn // nil while there is none

	cmd  *exec.Cmd // nil while it does not run
	done chan struct{}
	log  lockedBuffer
}

// Option changes a Server before its start.
type Option func(*Server)

// Config adds lines to the server's configuration, as they stand in redis.conf.
func Config(lines ...string) Option {
	return func(s *Server) { s.lines = append(s.lines, lines...) }
}

// Start starts a server on a free port. It skips the test where redis-server is not in PATH.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir()}
	for _, o := range options {
		o(s)
	}
	needServer(t)
	if s.clock != nil {
		s.clock.prepare(t, s.dir)
	}
	t.Cleanup(s.Kill)
	const attempts = 10 // another process may take the port first
	for attempt := 1; ; attempt++ {
		s.port = freePort(t)
		err := s.run()
		if err == nil {
			t.Cleanup(s.hangUp)
			return s
		}
		if attempt == attempts {
			t.Fatalf("start redis-server: %v", err)
		}
	}
}

// needServer skips the test where there is no redis-server.
func needServer(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not in PATH: tests with a real server are left out")
	}
}

// Addr returns the server's host and port. It stays the same when the server starts again.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// Do runs a command on the test's own connection and fails the test if that fails. It returns a
// string, int64, float64, bool, nil, or a []any or map[any]any of these.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	v, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("%v on %s: %v", args, s.Addr(), err)
	}
	return v
}

// Try is Do that returns the error. One that the server answers is an Error.
func (s *Server) Try(args ...any) (any, error) { return s.try(patience, args...) }

// try runs a command, and connects where there is no connection, or one that has ended.
func (s *Server) try(within time.Duration, args ...any) (any, error) {
	var answer Error
	if s.conn != nil {
		v, err := s.conn.do(within, args...)
		var timeout net.Error
		if err == nil || errors.As(err, &answer) || errors.As(err, &timeout) && timeout.Timeout() {
			if err != nil && answer == "" {
				s.hangUp()
			}
			return v, err
		}
	}
	s.hangUp()
	c, err := dial(s.Addr(), within)
	if err != nil {
		return nil, err
	}
	s.conn = c
	if _, err := c.do(within, "HELLO", "3"); err != nil && !errors.As(err, &answer) {
		s.hangUp()
		return nil, err
	}
	v, err := c.do(within, args...)
	if err != nil && !errors.As(err, &answer) {
		s.hangUp()
	}
	return v, err
}

// text runs a command whose answer is one text, and returns "" if it fails.
func (s *Server) text(args ...any) string {
	v, _ := s.try(time.Second, args...)
	text, _ := v.(string)
	return text
}

func (s *Server) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	conf := filepath.Join(s.dir, "redis.conf")
	if err := s.writeConfig(conf); err != nil {
		return err
	}
	s.log.Reset()
	args := []string{conf}
	if s.sentinel {
		args = append(args, "--sentinel")
	}
	cmd := exec.Command("redis-server", args...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.SysProcAttr = diesWithParent()
	if s.clock != nil {
		cmd.Env = append(os.Environ(), s.clock.environ()...)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	s.cmd, s.done = cmd, done
	if err := s.awaitStart(); err != nil {
		s.end()
		return fmt.Errorf("%w\n%s", err, s.log.String())
	}
	return nil
}

// writeConfig writes the configuration. A sentinel keeps its state there, so its file stays.
func (s *Server) writeConfig(path string) error {
	lines := []string{"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.dir}
	if !s.sentinel {
		lines = append(lines, "save \"\"", "appendonly no", "repl-diskless-sync-delay 0")
	} else if _, err := os.Stat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, []byte(strings.Join(append(lines, s.lines...), "\n")+"\n"), 0o600)
}

// awaitStart waits until the process answers, and not another one that has its port.
func (s *Server) awaitStart() error {
	want := fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)
	err := poll(func() (bool, error) {
		select {
		case <-s.done:
			return false, errors.New("the process has ended")
		default:
		}
		v, err := s.try(time.Second, "INFO", "server")
		if info, _ := v.(string); err == nil && !strings.Contains(info, want) {
			return false, fmt.Errorf("another process has port %d", s.port)
		}
		if err != nil && needsUser(err) {
			return true, nil
		}
		if err == nil && !s.loading {
			_, err = s.try(time.Second, "PING") // INFO is answered while it loads
		}
		return err == nil, nil
	})
	return err
}

// needsUser reports whether a server that answers knows no user without a password.
func needsUser(err error) bool {
	return strings.HasPrefix(err.Error(), "NOAUTH") || strings.HasPrefix(err.Error(), "NOPERM")
}

// end kills the process and waits until it is gone.
func (s *Server) end() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Log returns what the process has printed since its last start.
func (s *Server) Log() string { return s.log.String() }

// lockedBuffer is a buffer that a process writes while the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *lockedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

// freePort returns a port below those that systems give to outgoing connections, so that a server
// that starts again finds it free. The port of the Cluster's bus, 10,000 above, is free as well.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(12000)
		if isFree(port) && isFree(port+10000) {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// poll calls is until it holds, fails or patience ends.
func poll(is func() (bool, error)) error {
	began := time.Now()
	for {
		ok, err := is()
		if ok || err != nil {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("still not after %v", patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Eventually calls is until it holds, and fails the test if it does not within 20 seconds.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	if err := poll(func() (bool, error) { return is(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
