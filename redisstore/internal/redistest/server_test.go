package redistest_test

import (
	"context"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

func TestServerKeepsWhatIsSaidToBeKept(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	addr := s.Addr()
	s.Do("SET", "k", "v")
	s.RestartKept()
	if got := s.Do("GET", "k"); got != "v" || s.Addr() != addr {
		t.Errorf("kept: k is %v on %s, want v on %s", got, s.Addr(), addr)
	}
	s.RestartEmpty()
	if got := s.Do("GET", "k"); got != nil || s.Addr() != addr {
		t.Errorf("empty: k is %v on %s, want nothing on %s", got, s.Addr(), addr)
	}
}

func TestServerRefusesWhileKilledAndHangsWhilePaused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Config("maxmemory 10mb"))
	ping := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return s.Client().Ping(ctx).Err()
	}
	s.Pause()
	if ping() == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	s.Do("PING")
	s.Kill()
	if ping() == nil {
		t.Error("a killed server answers")
	}
	s.RestartEmpty()
	if got := s.Do("CONFIG", "GET", "maxmemory").(map[any]any)["maxmemory"]; got != "10485760" {
		t.Errorf("maxmemory is %v after the start", got)
	}
}

func TestServerClockJumps(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Ahead(time.Hour))
	ahead := func() time.Duration {
		now, err := s.Client().Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(now).Round(time.Minute)
	}
	for _, want := range []time.Duration{time.Hour, -2 * time.Hour, 0} {
		s.SetAhead(want)
		if got := ahead(); got != want {
			t.Errorf("the clock is %v ahead, want %v", got, want)
		}
	}
}
