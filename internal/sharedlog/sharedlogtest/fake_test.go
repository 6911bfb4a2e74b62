package sharedlogtest_test

import (
	"errors"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

type fakeStore struct{ *sharedlogtest.Fake }

func (s fakeStore) Open(_ *testing.T, process, span int64, ttl time.Duration) sharedlog.Log {
	return s.Fake.Open(process, span, ttl)
}

func (s fakeStore) Kill(process int64) bool {
	s.Fake.Kill(process)
	return true
}

func (s fakeStore) Replace(*testing.T) bool {
	s.Fake.Replace(false)
	return true
}

func (s fakeStore) Excludes() bool { return false }

func TestFake(t *testing.T) {
	sharedlogtest.Exercise(t, func(*testing.T) sharedlogtest.Store { return fakeStore{sharedlogtest.NewFake()} })
}

// A Commit that fails before the write has written nothing, and one that fails after it
// everything.
func TestFakeFails(t *testing.T) {
	f := sharedlogtest.NewFake()
	log := f.Open(1, int64(time.Minute), time.Second)
	failure := errors.New("made up")
	write := func(n int64) error {
		t.Helper()
		step, err := log.Begin(t.Context(), sharedlog.Everything)
		if err != nil {
			t.Fatal(err)
		}
		_, err = step.Commit(&sharedlog.Batch{Events: []*sharedlog.Event{{Process: 1, N: n, Kind: sharedlog.Use, Model: "m"}}})
		return err
	}
	f.Before = func(int64) error { return failure }
	if err := write(1); err != failure || f.Events() != 0 {
		t.Errorf("before the write: %v, %d events", err, f.Events())
	}
	f.Before, f.After = nil, func(int64) error { return failure }
	if err := write(1); err != failure || f.Events() != 1 {
		t.Errorf("after the write: %v, %d events", err, f.Events())
	}
	f.After = nil
	if err := write(1); err == nil || f.Events() != 1 {
		t.Errorf("an event was written twice: %v, %d events", err, f.Events())
	}
	f.Fail(failure)
	if _, err := log.Begin(t.Context(), sharedlog.Everything); err != failure {
		t.Errorf("while the store is down: %v", err)
	}
	if _, err := log.Read(t.Context(), 0); err != failure {
		t.Errorf("while the store is down: %v", err)
	}
}
