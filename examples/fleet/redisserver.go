package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// startWithin is how long a server may take until it answers; it needs some 50 ms.
const startWithin = 10 * time.Second

var errNoRedis = errors.New(`redis-server is not in PATH. Install it:
    Debian, Ubuntu  apt-get install redis-server
    macOS           brew install redis
or name a server that runs: -redis redis://localhost:6379/0`)

// redisServer is a process of redis-server that keeps nothing on the disk, so that it comes back
// empty. Only one goroutine may use it.
type redisServer struct {
	program string
	folder  string
	port    int
	command *exec.Cmd     // nil while it does not run
	ended   chan struct{} // closed when command has ended
}

// startRedis starts a server on a free port of the loopback interface. The caller must kill it.
func startRedis(ctx context.Context, folder string) (*redisServer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	s := &redisServer{program: program, folder: folder, port: listener.Addr().(*net.TCPAddr).Port}
	if err := listener.Close(); err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	return s, s.start(ctx)
}

func (s *redisServer) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }
func (s *redisServer) url() string  { return "redis://" + s.addr() }
func (s *redisServer) log() string  { return filepath.Join(s.folder, "redis.log") }

// start starts the server, empty, and returns once it answers.
func (s *redisServer) start(ctx context.Context) error {
	command := exec.Command(s.program, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
		"--dir", s.folder, "--logfile", s.log(), "--daemonize", "no")
	apart(command) // Ctrl-C ends it when the machines have ended, and not before
	if err := command.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	s.command, s.ended = command, make(chan struct{})
	go func(ended chan struct{}) {
		command.Wait()
		close(ended)
	}(s.ended)
	if err := s.wait(ctx); err != nil {
		s.kill()
		return fmt.Errorf("start redis-server: %w", err)
	}
	return nil
}

// wait waits until the server answers.
func (s *redisServer) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	for {
		err := client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-s.ended:
			return fmt.Errorf("it ended: %s", s.lastWords())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// lastWords returns the end of the server's log.
func (s *redisServer) lastWords() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return strings.ToValidUTF8(string(lines[len(lines)-1]), "?")
}

// runs reports whether the server was started and not killed since.
func (s *redisServer) runs() bool { return s != nil && s.command != nil }

// kill ends the server at once, and returns when it has ended. It may be called on nil.
func (s *redisServer) kill() {
	if !s.runs() {
		return
	}
	s.command.Process.Kill() // that it has ended already is all right
	<-s.ended
	s.command = nil
}
