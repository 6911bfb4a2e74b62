// AutoPersist when the file cannot be written: retries, OnError, what Close returns.

package persist

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestAutoPersistRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		var reports []time.Duration
		start := time.Now()
		var rl *ratelimit.RateLimiter
		rl = reporting(t, "yaml", path, 250*time.Millisecond, func(err error) {
			reports = append(reports, time.Since(start))
			if !strings.HasPrefix(err.Error(), "autosave: persist: ") {
				t.Errorf("reported %q", err)
			}
			rl.RecordUsage("reports", 1, 0)
			rl.Stats("m")
			if rl.Persist() == nil { // which is not reported
				t.Error("Persist succeeded")
			}
		})
		remove := limitertest.Obstacle(t, path)
		for range 400 { // changes go on
			rl.RecordUsage("m", 1, 1)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if len(reports) < 4 || len(reports) > 12 {
			t.Errorf("%d reports in 40 s: %v", len(reports), reports)
		}
		for i := 1; i < len(reports); i++ {
			if apart := reports[i] - reports[i-1]; apart < time.Second || apart > 21*time.Second {
				t.Errorf("reports %v apart", apart)
			}
		}
		remove()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := inFile(t, "yaml", path).Stats("m").RPD; got != 400 {
			t.Errorf("the file holds %d requests, want 400", got)
		}
		limitertest.Close(t, rl)
	})
}

// The pause after a failure doubles, from Delay on, and a success ends it.
func TestAutoPersistBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		var reports []int
		start := time.Now()
		rl := reporting(t, "yaml", path, time.Second, func(error) { reports = append(reports, int(time.Since(start).Seconds())) })
		remove := limitertest.Obstacle(t, path)
		rl.RecordUsage("m", 1, 1)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if want := []int{1, 2, 4, 8, 16, 26, 36}; !slices.Equal(reports, want) {
			t.Errorf("failed at %v s, want %v", reports, want)
		}
		remove()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got := inFile(t, "yaml", path).Stats("m").RPD; got != 1 {
			t.Errorf("the file holds %d requests, want 1", got)
		}
		s := watchSaves(path)
		rl.RecordUsage("m", 1, 1)
		s.pass(30 * time.Second)
		if want := []int{1000}; !slices.Equal(s.at, want) {
			t.Errorf("saved at %v ms after the failures, want %v", s.at, want)
		}
		limitertest.Close(t, rl)
	})
}

// Persist by hand that succeeds makes a retry needless, and one that fails is
// retried.
func TestPersistAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		rl := reporting(t, "yaml", path, time.Second, nil)
		remove := limitertest.Obstacle(t, path)
		rl.RecordUsage("m", 1, 1)
		time.Sleep(1500 * time.Millisecond)
		remove()
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		s := watchSaves(path)
		s.pass(time.Minute)
		rl.RecordUsage("m", 1, 1)
		s.pass(2 * time.Minute)
		if want := []int{61_000}; !slices.Equal(s.at, want) {
			t.Errorf("saved at %v ms, want %v: again only after the next change", s.at, want)
		}

		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		remove = limitertest.Obstacle(t, path)
		if err := rl.Persist(); err == nil {
			t.Fatal("Persist succeeded")
		}
		remove()
		s = watchSaves(path)
		s.pass(time.Minute)
		if want := []int{1000}; !slices.Equal(s.at, want) {
			t.Errorf("saved at %v ms, want %v", s.at, want)
		}
		limitertest.Close(t, rl)
	})
}

func TestCloseReturnsTheErrorOfTheLastSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		rl := reporting(t, "yaml", path, time.Second, func(err error) { t.Errorf("reported what Close returns: %v", err) })
		remove := limitertest.Obstacle(t, path)
		rl.RecordUsage("m", 1, 1)
		if err := rl.Close(); err == nil || !strings.HasPrefix(err.Error(), "close: persist: ") {
			t.Errorf("Close returned %v", err)
		}
		remove()
		time.Sleep(time.Hour)
		if _, err := os.Stat(path); err == nil {
			t.Error("saved after Close")
		}
		limitertest.Close(t, rl) // tries again
		if got := inFile(t, "yaml", path).Stats("m").RPD; got != 1 {
			t.Errorf("the file holds %d requests, want 1", got)
		}
	})
}

// What a closed database could not take is lost, and Close goes on to say so.
func TestCloseOfSQLiteSaysWhatIsLost(t *testing.T) {
	limitertest.NeedSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		rl := autosaved(t, "sqlite", path, ratelimit.AutoPersist{Delay: time.Second}, nil)
		refuseInserts(t, path)
		rl.RecordUsage("m", 1, 1)
		first := rl.Close()
		if first == nil || !strings.HasPrefix(first.Error(), "close: persist: ") {
			t.Errorf("Close returned %v", first)
		}
		if again := rl.Close(); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("then it returned %v, want %v again", again, first)
		}
	})
}

// OnError may close the limiter, and may block for ever, without keeping others
// from saving and closing.
func TestOnErrorIsOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		stuck := make(chan struct{})
		calls := 0
		rl := reporting(t, "yaml", path, time.Second, func(error) { calls++; <-stuck })
		remove := limitertest.Obstacle(t, path)
		rl.RecordUsage("m", 1, 1)
		time.Sleep(10 * time.Second)
		remove()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := inFile(t, "yaml", path).Stats("m").RPD; got != 1 {
			t.Errorf("the file holds %d requests, want 1", got)
		}
		limitertest.Close(t, rl)
		close(stuck)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d calls, want 1: none begins after Close", calls)
		}

		path = filepath.Join(t.TempDir(), "state.yaml")
		var closer *ratelimit.RateLimiter
		closed := false
		closer = reporting(t, "yaml", path, time.Second, func(error) { closed = closer.Close() != nil })
		limitertest.Obstacle(t, path)
		closer.RecordUsage("m", 1, 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !closed {
			t.Error("Close within OnError did not return the error of the save")
		}
	})
}

// SQLite tells of failures like YAML, and saves what it could not when it can.
func TestAutoPersistToSQLiteRetries(t *testing.T) {
	limitertest.NeedSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		reports := 0
		rl := reporting(t, "sqlite", path, time.Second, func(error) { reports++ })
		refuseInserts(t, path)
		rl.RecordUsage("m", 1, 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if reports != 3 { // after 1, 2 and 4 s
			t.Errorf("%d reports, want 3", reports)
		}
		statefile.Exec(t, path, "DROP TRIGGER refuse")
		rl.RecordUsage("m", 1, 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := inFile(t, "sqlite", path).Stats("m").RPD; got != 2 {
			t.Errorf("the file holds %d requests, want 2", got)
		}
		limitertest.Close(t, rl)
	})
}
