// Helpers of the tests of AutoPersist.

package persist

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// autosaved returns a limiter that saves by itself, and Close is left to the test.
func autosaved(t testing.TB, backend, path string, when ratelimit.AutoPersist, quotas map[string]ratelimit.ModelQuota) *ratelimit.RateLimiter {
	t.Helper()
	return limitertest.Saving(t, ratelimit.Config{
		Backend: backend, FilePath: path, AutoPersist: when, Quotas: quotas,
		OnError: func(err error) { t.Error(err) },
	})
}

// reporting returns a limiter that saves by itself, where that may fail.
func reporting(t testing.TB, backend, path string, delay time.Duration, onError func(error)) *ratelimit.RateLimiter {
	t.Helper()
	return limitertest.Saving(t, ratelimit.Config{
		Backend: backend, FilePath: path, AutoPersist: ratelimit.AutoPersist{Delay: delay}, OnError: onError,
	})
}

// refuseInserts has a database refuse what is recorded, until the trigger is dropped.
func refuseInserts(t testing.TB, path string) {
	t.Helper()
	statefile.Exec(t, path, "CREATE TRIGGER refuse BEFORE INSERT ON requests BEGIN SELECT RAISE(ABORT, 'no'); END")
}

// inFile returns what another limiter finds in a file.
func inFile(t testing.TB, backend, path string) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Backend: backend, FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rl.Load(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	return rl
}

// saves notes when a YAML file is replaced, in a bubble.
type saves struct {
	path  string
	start time.Time
	last  os.FileInfo
	at    []int // in milliseconds
}

func watchSaves(path string) *saves {
	s := &saves{path: path, start: time.Now()}
	s.last, _ = os.Stat(path)
	return s
}

// pass lets time pass, a millisecond at a time.
func (s *saves) pass(until time.Duration) {
	for time.Since(s.start) < until {
		time.Sleep(time.Millisecond)
		s.look()
	}
}

func (s *saves) look() {
	synctest.Wait()
	info, err := os.Stat(s.path)
	if err == nil && (s.last == nil || !os.SameFile(s.last, info)) {
		s.at = append(s.at, int(time.Since(s.start).Milliseconds()))
		s.last = info
	}
}
