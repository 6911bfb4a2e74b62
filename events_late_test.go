// Events: answers that come too late.

package ratelimit_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// An admission that is heard so late that the call would reach its provider in another minute is
// taken back. Its events are those of what the caller gets.
func TestEventsOfLateAnswers(t *testing.T) {
	for _, test := range []struct {
		name      string
		meanwhile func(rl, other *ratelimit.RateLimiter)
		want      []string
	}{
		{"asked anew", func(_, _ *ratelimit.RateLimiter) {}, []string{"#1 admitted m 1+1"}},
		{"too large by then", func(_, other *ratelimit.RateLimiter) { other.SetQuota("m", ratelimit.ModelQuota{MaxTPM: 1}) },
			[]string{"#1 refused m 1+1 [tpm_exceeded]"}},
		{"closed by then", func(rl, _ *ratelimit.RateLimiter) { go rl.Close() }, []string{"#1 refused m 1+1 [closed]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, fake := witnessOf(t), fakestore.New()
				fake.Timeout = time.Minute
				var slow atomic.Bool
				fake.After = func(int64) error { // the follower has heard what was written
					if slow.CompareAndSwap(true, false) {
						time.Sleep(2 * time.Second)
					}
					return nil
				}
				quotas := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}
				rl := overStore(t, fake, ratelimit.Config{Events: w, Quotas: quotas, HoldTTL: time.Hour})
				other := overStore(t, fake, ratelimit.Config{Quotas: quotas})
				synctest.Wait()
				w.lines()
				slow.Store(true)
				got := make(chan *ratelimit.Reservation)
				go func() {
					r, d := rl.Reserve("m", 1, 1)
					t.Log(d.Reason)
					got <- r
				}()
				time.Sleep(1500 * time.Millisecond)
				test.meanwhile(rl, other)
				r := <-got
				synctest.Wait()
				w.wantLines(w.lines(ratelimit.EventAdmitted, ratelimit.EventRefused, ratelimit.EventReleased), test.want)
				r.Cancel()
			})
		})
	}
}
