// Config.Events where memory is made anew from the log.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// lineKeeper keeps events of some kinds as lines.
type lineKeeper struct {
	mu     sync.Mutex
	prefix string
	began  time.Time
	lines  []string
}

func (k *lineKeeper) HandleEvent(_ context.Context, e *ratelimit.Event) {
	if !strings.HasPrefix(string(e.Kind), k.prefix) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	q := ""
	if e.Quota != nil {
		q = fmt.Sprint(" rpm ", e.Quota.MaxRPM)
	}
	k.lines = append(k.lines, fmt.Sprint(time.Since(k.began).Round(time.Second), " ", e.Kind, " ", e.Model, " ", e.Cause, e.By, q))
}

func (k *lineKeeper) take() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.lines
	k.lines = nil
	return was
}

// A recovery that meets the reset of another model ends no cooldown.
func TestEventsOfARecoveryAndCooldowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fake := &lineKeeper{prefix: "cooldown", began: time.Now()}, fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: k, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}, "other": {MaxRPM: 5}}})
		defer rl.Close()
		rl.CooldownFor("m", 10*time.Minute, "x")
		rl.RecordUsage("other", 1, 1)
		rl.Reset("other")
		k.take()
		fake.Fail(errors.New("made up"))
		rl.RecordUsage("m", 1, 1)
		time.Sleep(10 * time.Second)
		fake.Fail(nil)
		for rl.Err() != nil {
			rl.Persist()
		}
		rl.RecordUsage("m", 1, 1)
		rl.Reset("nobody") // has what is pending told
		if early := k.take(); len(early) != 0 {
			t.Errorf("told %q, while the cooldown lasts: %v", early, rl.Explain("m").CooldownUntil)
		}
		time.Sleep(10 * time.Minute)
		if late := k.take(); len(late) != 1 {
			t.Errorf("at its end told %q", late)
		}
	})
}

// A quota that is set while the store is down holds, and is told, once it is back.
func TestEventsOfARecoveryAndQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fake := &lineKeeper{prefix: "quota", began: time.Now()}, fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: k, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		defer rl.Close()
		fake.Fail(errors.New("made up"))
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		if told := k.take(); len(told) != 0 {
			t.Errorf("told %q", told)
		}
		time.Sleep(10 * time.Second)
		fake.Fail(nil)
		for rl.Err() != nil {
			rl.Persist()
		}
		rl.Reset("nobody")
		if told := k.take(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
	})
}

// What a recovery changes is told without a method that would tell it.
func TestEventsOfARecoveryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fake := &lineKeeper{began: time.Now()}, fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: k, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		defer rl.Close()
		rl.CooldownFor("m", 10*time.Minute, "x")
		fake.Fail(errors.New("made up"))
		rl.Reset("m")
		rl.CooldownFor("m", 20*time.Minute, "y")
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		for _, line := range k.take() {
			_ = line
		}
		fake.Fail(nil)
		time.Sleep(time.Minute) // recovers by itself
		for _, line := range k.take() {
			_ = line
		}
		rl.Reset("nobody")
		for _, line := range k.take() {
			if !strings.Contains(line, "saved") {
				t.Errorf("told only when another method came: %s", line)
			}
		}
	})
}
