package redisstore

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

func TestOptions(t *testing.T) {
	for _, row := range []struct {
		options Options
		want    string
	}{
		{Options{}, `Prefix is ""`},
		{Options{Prefix: "a{b"}, `Prefix is "a{b"`},
		{Options{Prefix: "a}b"}, `Prefix is "a}b"`},
		{Options{Prefix: "a", MaxStale: -1}, "MaxStale is -1ns"},
		{Options{Prefix: "a", Timeout: -time.Second}, "Timeout is -1s"},
		{Options{Prefix: "a", WaitReplicas: -1}, "WaitReplicas is -1"},
	} {
		_, client := testServer(t)
		if s, err := New(t.Context(), client, row.options); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, %v, want %s", row.options, s, err, row.want)
		}
	}
	_, client := testServer(t)
	s, err := New(t.Context(), client, Options{Prefix: "a"})
	if err != nil || s.options.MaxStale != 100*time.Millisecond || s.options.Timeout != 250*time.Millisecond {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := New(t.Context(), nil, Options{Prefix: "a"}); err == nil {
		t.Errorf("without a client: %+v", s)
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "7.0.15": true, "10.1": true, "6.0.16": false, "5.0.7": false, "6.1.240": false,
		"": true, "unstable": true, "255.255.255": true,
	} {
		if got := isAtLeast(version, 6, 2); got != want {
			t.Errorf("%q: %t", version, got)
		}
	}
}

// What is not as it should be is an error, or a warning when a limiter opens the store.
func TestNewExaminesTheServer(t *testing.T) {
	for name, row := range map[string]struct {
		server, memory string // what INFO answers
		heeds          bool
		fails          string
		warns          []string
	}{
		"all right":       {"redis_version:7.0.15\r\n", "maxmemory_policy:noeviction\r\n", true, "", nil},
		"too old":         {"redis_version:6.0.16\r\n", "", true, `version "6.0.16"`, nil},
		"evicts":          {"redis_version:6.2.0\r\n", "a:b\r\nmaxmemory_policy:allkeys-lru\r\n", true, "", []string{"allkeys-lru"}},
		"INFO is refused": {"", "", true, "", []string{"version", "maxmemory-policy"}},
		"no deadlines":    {"redis_version:7.0.15\r\n", "maxmemory_policy:noeviction\r\n", false, "", []string{"ContextTimeoutEnabled"}},
	} {
		client := redis.NewClient(&redis.Options{
			ContextTimeoutEnabled: row.heeds, Protocol: 2, DisableIdentity: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return answering(row.server, row.memory), nil },
		})
		s, err := New(t.Context(), client, Options{Prefix: "a"})
		client.Close()
		if row.fails != "" {
			if err == nil || !strings.Contains(err.Error(), row.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var warnings []string
		s.OpenLog(t.Context(), sharedlog.Options{Process: 1, LeaseTTL: time.Second, Report: func(err error) { warnings = append(warnings, err.Error()) }})
		if len(warnings) != len(row.warns) {
			t.Errorf("%s: %q", name, warnings)
			continue
		}
		for i, want := range row.warns {
			if !strings.Contains(warnings[i], want) {
				t.Errorf("%s: %q, want %s", name, warnings[i], want)
			}
		}
	}
}

// answering returns a connection to a server that answers PING and INFO.
func answering(server, memory string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		lines := bufio.NewScanner(far)
		for lines.Scan() {
			answer, word, info := "", lines.Text(), map[string]string{"server": server, "memory": memory}
			switch {
			case strings.EqualFold(word, "ping"):
				answer = "+PONG\r\n"
			case info[word] != "":
				answer = "$" + itoa(int64(len(info[word]))) + "\r\n" + info[word] + "\r\n"
			case word == "server", word == "memory":
				answer = "-NOPERM this user has no permissions to run the 'info' command\r\n"
			case strings.EqualFold(word, "hello"):
				answer = "-ERR unknown command\r\n"
			}
			if answer == "" {
				continue
			}
			if _, err := far.Write([]byte(answer)); err != nil {
				return
			}
		}
	}()
	return near
}

// No call waits for longer than Timeout, whether the client heeds deadlines or not.
func TestTimeout(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		server, fine := testServer(t)
		const timeout = 150 * time.Millisecond
		silent := make(chan struct{})
		client := redis.NewClient(&redis.Options{
			ContextTimeoutEnabled: heeds, Protocol: 2, DisableIdentity: true, PoolSize: 20,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				c, err := server.Dial()
				return &mutedConn{c, silent}, err
			},
		})
		s := testStore(t, client, Options{Timeout: timeout})
		l, _ := joined(t, s, 1)
		commit(t, l, 0, batchOf(use(1, 1)))
		close(silent)
		for what, call := range map[string]func() error{
			"Commit": func() error { _, err := begin(t, l, 1).Commit(batchOf(use(1, 2))); return err },
			"Read":   func() error { _, err := l.Read(context.Background(), 0); l.offline.Store(true); return err },
			"Begin": func() error {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				defer cancel()
				_, err := l.Begin(ctx, sharedlog.Everything)
				return err
			},
			"Owner": func() error { l.Owner(2); return errors.New("it tells no error") },
		} {
			began := time.Now()
			err := call()
			if took := time.Since(began); took > 4*timeout {
				t.Errorf("%s, heeding %t: takes %v", what, heeds, took)
			}
			if err == nil && what != "Read" {
				t.Errorf("%s, heeding %t: no error", what, heeds)
			}
		}
		fine.Close()
		l.Close()
		client.Close()
	}
}

// mutedConn is a connection on which nothing comes back once silent is closed.
type mutedConn struct {
	net.Conn
	silent chan struct{}
}

func (c *mutedConn) Write(b []byte) (int, error) {
	select {
	case <-c.silent:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}
