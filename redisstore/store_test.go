package redisstore

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
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
		{Options{Prefix: "a", OpenTimeout: -time.Second}, "OpenTimeout is -1s"},
		{Options{Prefix: "a", WaitReplicas: -1}, "WaitReplicas is -1"},
	} {
		if s, err := New(t.Context(), clientOf(t, "127.0.0.1:1"), row.options); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, %v, want %s", row.options, s, err, row.want)
		}
	}
	s, err := New(t.Context(), clientOf(t, redistest.Start(t).Addr()), Options{Prefix: "a"})
	if err != nil || s.options.MaxStale != 100*time.Millisecond || s.options.Timeout != 250*time.Millisecond ||
		s.options.OpenTimeout != 10*time.Second {
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
		info  string // what INFO answers
		heeds bool
		fails string
		warns []string
	}{
		"all right":       {"redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n", true, "", nil},
		"too old":         {"redis_version:6.0.16\r\n", true, `version "6.0.16"`, nil},
		"evicts":          {"redis_version:6.2.0\r\na:b\r\nmaxmemory_policy:allkeys-lru\r\n", true, "", []string{"allkeys-lru"}},
		"INFO is refused": {"", true, "", []string{"version", "maxmemory-policy"}},
		"no deadlines":    {"redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n", false, "", []string{"ContextTimeoutEnabled"}},
		"two things":      {"redis_version:7.0.15\r\nmaxmemory_policy:volatile-ttl\r\n", false, "", []string{"ContextTimeoutEnabled", "volatile-ttl"}},
	} {
		client := redis.NewClient(&redis.Options{
			ContextTimeoutEnabled: row.heeds, Protocol: 2, DisableIdentity: true,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return answering(row.info), nil },
		})
		s, err := New(t.Context(), client, Options{Prefix: "a"})
		t.Cleanup(func() { client.Close() })
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
		reports := 0
		_, err = s.Open(t.Context(), store.Options{Process: 1, Report: func(err error) {
			reports++
			warnings = append(warnings, strings.Split(err.Error(), "\n")...)
		}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if reports > 1 {
			t.Errorf("%s: %d reports, of which OnError would get the last", name, reports)
		}
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

// answering returns a connection to a server that answers PING and INFO, and a script.
func answering(info string) net.Conn {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		lines := bufio.NewScanner(far)
		for lines.Scan() {
			answer, word := "", lines.Text()
			switch {
			case strings.EqualFold(word, "ping"):
				answer = "+PONG\r\n"
			case word == "evalsha":
				answer = "+ok\r\n"
			case word == "info" && info != "":
				answer = "$" + strconv.Itoa(len(info)) + "\r\n" + info + "\r\n"
			case word == "info":
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
