package redistest_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
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
		conn, err := net.DialTimeout("tcp", s.Addr(), while)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = ask(conn, while)
		return err
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
		fields := s.Do("TIME").([]any)
		seconds, err := strconv.ParseInt(fields[0].(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(time.Unix(seconds, 0)).Round(time.Minute)
	}
	for _, want := range []time.Duration{time.Hour, -2 * time.Hour, 0} {
		s.SetAhead(want)
		if got := ahead(); got != want {
			t.Errorf("the clock is %v ahead, want %v", got, want)
		}
	}
	instant := time.UnixMicro(1_767_225_599_999_999)
	s.SetTime(instant)
	for range 2 {
		fields := s.Do("TIME").([]any)
		if fields[0] != "1767225599" || fields[1] != "999999" {
			t.Errorf("a clock that stands at %v tells %v", instant, fields)
		}
	}
	s.SetAhead(0)
	if got := ahead(); got != 0 {
		t.Errorf("a clock that goes again is %v ahead", got)
	}
}
