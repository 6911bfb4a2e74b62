package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// tells fails the test unless an error has all of the words.
func tells(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one with %q", what, words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: error %q lacks %q", what, err, word)
		}
	}
}

// An error says what was done, where, under which prefix, and why it failed.
func TestErrorsName(t *testing.T) {
	server := redistest.Start(t)
	address := server.Addr()
	options := Options{Prefix: "acme", OpenTimeout: 600 * time.Millisecond}
	s, err := New(t.Context(), clientOf(t, address), options)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Open(t.Context(), store.Options{Process: 1})
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	where := []string{`prefix "acme"`, address, "connection refused"}
	began := time.Now()
	_, err = New(t.Context(), clientOf(t, address), options)
	tells(t, "new", err, append(where, "new redis store: ")...)
	_, err = s.Open(t.Context(), store.Options{Process: 2})
	tells(t, "open", err, append(where, "redis: open log: ")...)
	if took := time.Since(began); took < 2*options.OpenTimeout || took > 6*options.OpenTimeout {
		t.Errorf("two openings give up after %v, want %v each", took, options.OpenTimeout)
	}
	_, err = l.Append(t.Context(), start.At, oneEntry(1))
	tells(t, "append", err, append(where, "redis: append: ")...)
	_, err = l.Read(t.Context(), start.At, 0, 0)
	tells(t, "read", err, append(where, "redis: read: ")...)
	_, err = l.Load(t.Context())
	tells(t, "load", err, append(where, "redis: load image: ")...)
	tells(t, "save", l.Save(t.Context(), start), append(where, "redis: save image: ")...)
	tells(t, "begin", l.Begin(t.Context(), 0, start), append(where, "redis: begin log: ")...)
}

// An opening outlasts a server that is started again, loads its data or is a replica for a while.
func TestOpeningTriesAgain(t *testing.T) {
	server := redistest.Start(t)
	client := clientOf(t, server.Addr())
	s, err := New(t.Context(), client, Options{Prefix: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string][2]func(){
		"killed":    {server.Kill, server.RestartEmpty},
		"paused":    {server.Pause, server.Resume},
		"a replica": {func() { server.Do("REPLICAOF", "127.0.0.1", "1") }, func() { server.Do("REPLICAOF", "NO", "ONE") }},
	} {
		fault[0]()
		done := make(chan error, 2)
		go func() {
			_, err := New(t.Context(), client, Options{Prefix: "test"})
			done <- err
			_, err = s.Open(t.Context(), store.Options{Process: 1})
			done <- err
		}()
		select {
		case err := <-done:
			if name != "a replica" { // which answers New
				t.Errorf("%s: New returns %v", name, err)
			}
			done <- err
		case <-time.After(400 * time.Millisecond):
		}
		fault[1]()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What another try does not mend is told at once, and the end of the context ends an opening.
func TestOpeningGivesUp(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "guest", "reset", "on", ">secret")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "guest", Password: "wrong", ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	began := time.Now()
	_, err := New(t.Context(), client, Options{Prefix: "test", OpenTimeout: time.Hour})
	tells(t, "a wrong password", err, "WRONGPASS")
	s, err := New(t.Context(), clientOf(t, server.Addr()), Options{Prefix: "test", OpenTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = s.Open(ctx, store.Options{Process: 1})
	tells(t, "a context", err, "connection refused")
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("error %v after %v", err, took)
	}
}

// A store that was emptied is told from a new one where a limiter of this program has used it, and
// one of which a part is left by everybody.
func TestLoadOfWhatWasLost(t *testing.T) {
	server := redistest.Start(t)
	client := clientOf(t, server.Addr())
	l := begun(t, client, Options{}, 0)
	server.Do("DEL", l.(*Log).keys[keyMeta])
	if _, err := l.Append(t.Context(), start.At, oneEntry(1)); !errors.Is(err, store.ErrLost) {
		t.Errorf("append: error %v", err)
	}
	for name, lose := range map[string]func(){"a part": func() {}, "everything": func() { server.Do("FLUSHALL") }} {
		lose()
		s, err := New(t.Context(), client, Options{Prefix: "test"})
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.Open(t.Context(), store.Options{Process: 2})
		if err != nil {
			t.Fatal(err)
		}
		if image, err := other.Load(t.Context()); !image.IsZero() || !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: image %+v, error %v", name, image, err)
		}
	}
	s, _ := New(t.Context(), client, Options{Prefix: "another"})
	other, err := s.Open(t.Context(), store.Options{Process: 3})
	if err != nil {
		t.Fatal(err)
	}
	if image, err := other.Load(t.Context()); !image.IsZero() || err != nil {
		t.Errorf("another prefix: image %+v, error %v", image, err)
	}
}
