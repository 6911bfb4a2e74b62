// Events of writes.

package ratelimit_test

import (
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

func TestEventsOfSaves(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				w := witnessOf(t)
				rl := newLimiterWith(t, ratelimit.Config{Backend: backend, FilePath: path, Events: w, Quotas: quotas{"m": {MaxRPM: 5}}})
				defer rl.Close()
				rl.RecordUsage("m", 1, 1)
				for range 2 {
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				w.wantLines(w.lines(ratelimit.EventSaved), []string{"saved " + backend + " save", "saved " + backend + " save"})
				w.closes(rl)
			})
		})
		t.Run(backend+" by itself", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				w := witnessOf(t)
				rl := limitertest.Saving(t, ratelimit.Config{
					Backend: backend, FilePath: path, Events: w, AutoPersist: ratelimit.AutoPersist{Delay: time.Second},
				})
				rl.RecordUsage("m", 1, 1)
				time.Sleep(time.Minute)
				synctest.Wait()
				w.wantLines(w.lines(ratelimit.EventSaved), []string{"saved " + backend + " save"})
				rl.RecordUsage("m", 1, 1)
				w.closes(rl)
				w.wantLines(w.lines(ratelimit.EventSaved), []string{"saved " + backend + " save"})
			})
		})
	}
}

// A write that fails is told with its error, each time that it is tried.
func TestEventsOfSavesThatFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		w := witnessOf(t)
		rl := limitertest.Saving(t, ratelimit.Config{FilePath: path, Events: w, AutoPersist: ratelimit.AutoPersist{Delay: time.Second}})
		remove := limitertest.Obstacle(t, path)
		err := rl.Persist()
		synctest.Wait()
		all := w.take()
		if err == nil || len(all) != 1 || all[0].Kind != ratelimit.EventSaved || all[0].Err == nil || all[0].System != "yaml" {
			t.Errorf("%v, and told %+v", err, all)
		}
		rl.RecordUsage("m", 1, 1)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		failed := 0
		for _, is := range w.take() {
			if is.Kind == ratelimit.EventSaved && is.Err != nil {
				failed++
			}
		}
		if failed == 0 {
			t.Error("a failure in the background was not told")
		}
		remove()
		w.closes(rl)
		w.wantLines(w.lines(ratelimit.EventSaved), []string{"saved yaml save"})
	})
}

// With a store each step is one.
func TestEventsOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, w := sharedlogtest.NewFake(), witnessOf(t)
		fake.Before = func(int64) error {
			time.Sleep(30 * time.Millisecond)
			return nil
		}
		rl := overStore(t, fake, ratelimit.Config{Events: w, Quotas: quotas{"m": {MaxRPM: 5}}})
		synctest.Wait()
		w.lines()
		reserve(t, rl, "m", 1, 1).Cancel()
		synctest.Wait()
		steps := 0
		for _, is := range w.take() {
			if is.Kind == ratelimit.EventSaved {
				if steps++; is.Operation != "step" || is.Took < 30*time.Millisecond || is.Err != nil {
					t.Errorf("told %+v", is.Event)
				}
			}
		}
		if steps == 0 || steps > 4 {
			t.Errorf("%d steps were told", steps)
		}
		fake.Fail(errors.New("made up"))
		r, _ := rl.Reserve("m", 1, 1)
		synctest.Wait()
		if n := w.count(ratelimit.EventStoreDown); n != 1 {
			t.Errorf("%d times down", n)
		}
		r.Cancel()
		fake.Fail(nil)
		w.closes(rl)
	})
}
