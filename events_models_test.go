// Events of models and of writes: cooldowns, quotas, what is forgotten, refusals.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

func TestEventsOfCooldowns(t *testing.T) {
	for _, tt := range []eventRow{
		{"it ends by time", func(s *eventStage) {
			s.rl.Cooldown("m", time.Now().Add(time.Minute))
			s.w.want("cooldown_began m cause caller for 1m0s")
			time.Sleep(time.Minute - time.Millisecond)
			s.w.want()
			time.Sleep(time.Second)
		}, []string{"cooldown_ended m cause caller"}},
		{"Reset of the model", func(s *eventStage) {
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseOverloaded)
			s.rl.Reset("slots")
			s.rl.Reset("m")
			s.rl.Reset("m")
			s.w.want("cooldown_began m cause overloaded for 1m0s", "cooldown_ended m cause overloaded")
			time.Sleep(time.Hour)
		}, nil},
		{"Reset of all", func(s *eventStage) {
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseDailyQuota)
			s.rl.Reset("")
			s.w.want("cooldown_began m cause daily_quota for 1m0s", "cooldown_ended m cause daily_quota")
			time.Sleep(time.Hour)
		}, nil},
		{"prolonged", func(s *eventStage) {
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseOverloaded)
			time.Sleep(10 * time.Second)
			s.rl.CooldownFor("m", 2*time.Minute, ratelimit.CauseRateLimited)
			time.Sleep(110 * time.Second)
			s.w.want("cooldown_began m cause overloaded for 1m0s", "cooldown_began m cause rate_limited for 2m0s")
			time.Sleep(time.Hour)
		}, []string{"cooldown_ended m cause rate_limited"}},
		{"one that ends earlier, one of the past, one of no time", func(s *eventStage) {
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseOverloaded)
			s.rl.CooldownFor("m", time.Second, ratelimit.CauseRateLimited)
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseRateLimited)
			s.rl.Cooldown("m", time.Now().Add(-time.Second))
			s.rl.CooldownFor("slots", 0, ratelimit.CauseRateLimited)
			time.Sleep(time.Hour)
		}, []string{"cooldown_began m cause overloaded for 1m0s", "cooldown_ended m cause overloaded"}},
		{"again", func(s *eventStage) {
			for range 2 {
				s.rl.CooldownFor("m", time.Second, "budget")
				time.Sleep(time.Minute)
			}
		}, []string{
			"cooldown_began m cause budget for 1s", "cooldown_ended m cause budget",
			"cooldown_began m cause budget for 1s", "cooldown_ended m cause budget",
		}},
		{"two models", func(s *eventStage) {
			s.rl.CooldownFor("m", 2*time.Minute, "later")
			s.rl.CooldownFor("slots", time.Minute, "sooner")
			time.Sleep(time.Hour)
		}, []string{
			"cooldown_began m cause later for 2m0s", "cooldown_began slots cause sooner for 1m0s",
			"cooldown_ended slots cause sooner", "cooldown_ended m cause later",
		}},
		{"it denies", func(s *eventStage) {
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseOverloaded)
			s.rl.Reserve("m", 1, 1)
			s.acquire("m", 1, 1).Commit(1, 1)
			synctest.Wait()
			all := s.w.take() // the cooldown and the wait end in the same instant, in any order
			s.w.wantLines(linesOf(all, ratelimit.EventCooldownEnded), []string{"cooldown_ended m cause overloaded"})
			s.w.wantLines(linesOf(slices.DeleteFunc(all, func(is told) bool { return is.Kind == ratelimit.EventCooldownEnded })), []string{
				"cooldown_began m cause overloaded for 1m0s", "#1 refused m 1+1 [cooldown]", "#2 queued m 1+1 [cooldown]",
				"#2 admitted m 1+1 after 1m0s [cooldown]", "#2 settled m 1+1 used 1+1",
			})
		}, nil},
		{"closed meanwhile", func(s *eventStage) {
			s.rl.CooldownFor("m", time.Minute, ratelimit.CauseOverloaded)
			s.w.closes(s.rl)
			time.Sleep(time.Hour)
		}, []string{"cooldown_began m cause overloaded for 1m0s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEventStages(t, nil, func(s *eventStage) {
				tt.do(s)
				s.w.want(tt.want...)
			})
		})
	}
}

// Cooldowns of other processes are not told. An own one that another ends is told to have ended
// once.
func TestEventsOfCooldownsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, ws := fakestore.New(), [2]*witness{witnessOf(t), witnessOf(t)}
		var rls [2]*ratelimit.RateLimiter
		for i := range rls {
			rls[i] = overStore(t, fake, ratelimit.Config{Events: ws[i], Quotas: map[string]ratelimit.ModelQuota{"m": {}}})
		}
		for _, w := range ws {
			synctest.Wait()
			w.lines()
		}
		rls[0].CooldownFor("m", time.Minute, ratelimit.CauseOverloaded)
		if d := rls[1].Decide("m", 1); d.Code != ratelimit.DecisionCooldown {
			t.Fatalf("%+v", d)
		}
		time.Sleep(time.Hour)
		ws[0].want("cooldown_began m cause overloaded for 1m0s", "cooldown_ended m cause overloaded")
		ws[1].want()
		rls[0].CooldownFor("m", time.Minute, ratelimit.CauseRateLimited)
		rls[1].Reset("m")
		rls[0].Stats("m")
		time.Sleep(time.Hour)
		ws[0].want("cooldown_began m cause rate_limited for 1m0s", "cooldown_ended m cause rate_limited")
		ws[1].want()
	})
}

func TestEventsOfQuotas(t *testing.T) {
	type q = ratelimit.ModelQuota
	inProfile := ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models["gpt-4o"]
	profile := fmt.Sprintf("rpm %d tpm %d", inProfile.MaxRPM, inProfile.MaxTPM)
	for _, tt := range []eventRow{
		{"SetQuota", func(s *eventStage) {
			s.rl.SetQuota("m", q{MaxRPM: 3})
			s.rl.SetQuota("m", q{MaxRPM: 3})
			s.rl.SetQuota("m", q{MaxTPM: 3})
		}, []string{"quota_changed m by program rpm 3 tpm 0", "quota_changed m by program rpm 0 tpm 3"}},
		{"of a new model", func(s *eventStage) { s.rl.SetQuota("new", q{MaxRPM: 3}) },
			[]string{"quota_changed new by program rpm 3 tpm 0"}},
		{"to none", func(s *eventStage) { s.rl.SetQuota("m", q{}) }, []string{"quota_changed m by program rpm 0 tpm 0"}},
		{"RemoveQuota", func(s *eventStage) {
			s.rl.RemoveQuota("m")
			s.rl.RemoveQuota("m")
			s.rl.RemoveQuota("nothing")
		}, []string{"quota_changed m by program none"}},
		{"SetAccountQuotas", func(s *eventStage) {
			s.rl.SetAccountQuotas(quotas{"new": {MaxRPM: 3}})
			s.rl.SetAccountQuotas(quotas{"new": {MaxRPM: 3}})
			s.rl.SetAccountQuotas(nil)
		}, []string{"quota_changed new by account rpm 3 tpm 0", "quota_changed new by account none"}},
		{"SetAccountQuotas beneath the program's", func(s *eventStage) { s.rl.SetAccountQuotas(quotas{"m": {MaxTPM: 3}}) }, nil},
		{"RemoveQuota above the account's", func(s *eventStage) {
			s.rl.SetAccountQuotas(quotas{"m": {MaxTPM: 3}})
			s.rl.RemoveQuota("m")
		}, []string{"quota_changed m by program rpm 0 tpm 3"}},
		{"AddProvider", func(s *eventStage) {
			s.rl.AddProvider(ratelimit.ProviderOpenAI)
			s.rl.AddProvider(ratelimit.ProviderOpenAI)
			synctest.Wait()
			var got []string
			for _, line := range s.w.lines() {
				if want := "quota_changed gpt-4o of openai by profile "; len(line) > len(want) && line[:len(want)] == want {
					got = append(got, line)
				}
			}
			s.w.wantLines(got, []string{"quota_changed gpt-4o of openai by profile " + profile})
		}, nil},
		{"Observe of a limit", func(s *eventStage) {
			s.rl.Observe("m", limits{TPM: limit(50)})
			s.rl.Observe("m", limits{TPM: limit(50)})
			s.rl.Observe("m", limits{TPM: left(1)})
			s.rl.Observe("m", limits{TPM: limit(40), Refused: true})
			s.rl.ForgetLearned("m")
		}, []string{
			"quota_changed m by header rpm 0 tpm 50", "quota_changed m by refusal rpm 0 tpm 40", "quota_changed m by program rpm 0 tpm 100",
		}},
		{"Observe of a model without a quota", func(s *eventStage) { s.rl.Observe("new", limits{RPM: limit(50)}) },
			[]string{"quota_changed new by header rpm 50 tpm 0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEventStages(t, func(cfg *ratelimit.Config) { cfg.LearnQuotas = true }, func(s *eventStage) {
				tt.do(s)
				s.w.want(tt.want...)
			})
		})
	}
}

// What the program does with the map is told as its own, whoever spoke last.
func TestEventsOfQuotasByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := witnessOf(t)
		rl := newLimiterWith(t, ratelimit.Config{Events: w, Quotas: quotas{"m": {MaxRPM: 5}, "other": {}}})
		rl.SetAccountQuotas(quotas{"new": {MaxRPM: 1}})
		w.want("quota_changed new by account rpm 1 tpm 0")
		delete(rl.Quotas, "m")
		rl.RecordUsage("other", 1, 1)
		rl.SetQuota("other", ratelimit.ModelQuota{MaxRPM: 7})
		w.want("#1 recorded other used 1+1", "quota_changed m by program none", "quota_changed other by program rpm 7 tpm 0")
	})
}

// Quotas that another process sets are told by the name of it, and those of a file.
func TestEventsOfQuotasOfOthers(t *testing.T) {
	t.Run("another process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fake, w := fakestore.New(), witnessOf(t)
			own := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}}
			rl := overStore(t, fake, ratelimit.Config{Events: w, Quotas: own})
			other := overStore(t, fake, ratelimit.Config{Quotas: own})
			rl.Stats("m")
			synctest.Wait()
			w.lines()
			other.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 5})
			other.SetAccountQuotas(quotas{"new": {MaxRPM: 7}})
			rl.Stats("m")
			w.want("quota_changed m by process rpm 5 tpm 0", "quota_changed new by process rpm 7 tpm 0")
			other.RemoveQuota("m")
			rl.Stats("m")
			w.want("quota_changed m by process none")
		})
	})
	t.Run("file", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			path, w := filepath.Join(t.TempDir(), "state.yaml"), witnessOf(t)
			before := newLimiterWith(t, ratelimit.Config{FilePath: path, Quotas: quotas{"m": {MaxRPM: 5}, "other": {MaxRPM: 1}}})
			if err := before.Persist(); err != nil {
				t.Fatal(err)
			}
			rl := newLimiterWith(t, ratelimit.Config{FilePath: path, Events: w, Quotas: quotas{"other": {MaxRPM: 2}}})
			for range 2 {
				if err := rl.Load(); err != nil {
					t.Fatal(err)
				}
			}
			w.want("quota_changed m by file rpm 5 tpm 0")
		})
	})
}

// A model without a quota is told once a day.
func TestEventsOfUnknownModels(t *testing.T) {
	for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
		t.Run(policy.String(), func(t *testing.T) {
			onEventStages(t, func(cfg *ratelimit.Config) {
				cfg.Unknown, cfg.LeaseTTL = policy, 100*time.Hour // renewals would take most of the time
			}, func(s *eventStage) {
				s.lastsForDays()
				call := func(model string) {
					r, _ := s.rl.Reserve(model, 1, 1)
					r.Commit(1, 1)
				}
				unknown := func(want ...string) {
					s.Helper()
					synctest.Wait()
					s.w.wantLines(s.w.lines(ratelimit.EventUnknownModel), want)
				}
				call("slotz")
				call("slotz")
				call("slots")
				s.rl.RecordUsage("slotz", 1, 1)
				s.rl.Acquire(s.ctx, "slotz", 1, 1)
				unknown("unknown_model slotz nearest slots")
				call("something else")
				time.Sleep(23 * time.Hour)
				call("slotz")
				unknown("unknown_model something else")
				time.Sleep(2 * time.Hour)
				call("slotz")
				unknown("unknown_model slotz nearest slots")
			})
		})
	}
}

// A model whose usage is forgotten for another one.
func TestEventsOfWhatIsEvicted(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) {
		cfg.MaxModels = 2
		cfg.Quotas["*"] = ratelimit.ModelQuota{MaxRPM: 10}
	}, func(s *eventStage) {
		s.lastsForDays()
		for _, model := range []string{"a", "b"} {
			s.reserve(model, 1, 1).Commit(1, 1)
			time.Sleep(time.Second)
		}
		s.w.lines()
		time.Sleep(49 * time.Hour)
		s.reserve("c", 1, 1).Commit(1, 1)
		synctest.Wait()
		s.w.wantLines(s.w.lines(ratelimit.EventEvicted), []string{"evicted a"})
	})
}

// Of what has no place nothing is counted, and what is told agrees.
func TestEventsOfModelsWithoutAPlace(t *testing.T) {
	onEventStages(t, func(cfg *ratelimit.Config) { cfg.MaxModels = 1 }, func(s *eventStage) {
		held := s.reserve("a", 1, 1)
		r, _ := s.rl.Reserve("b", 2, 2)
		r.Commit(3, 3)
		r, _ = s.rl.Reserve("c", 2, 2)
		r.Cancel()
		s.w.wantOpen(1)
		held.Cancel()
		s.w.wantOpen(0)
	})
}

func TestEventsOfRefusals(t *testing.T) {
	onEventStages(t, nil, func(s *eventStage) {
		s.rl.ObserveRefusal(s.ctx, ratelimit.ProviderRefusal{
			Model: "m", Status: 429, Problem: "rate_limited", RetryAfter: time.Minute,
		})
		synctest.Wait()
		all := s.w.take()
		for _, is := range all {
			if is.Kind == ratelimit.EventProviderRefused && is.ctx.Value(callKey{}) != "call" {
				s.Error("the context is another")
			}
		}
		s.w.wantLines(linesOf(all), []string{"provider_refused m status 429 rate_limited retry 1m0s"})
		s.rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: "slots", Problem: "overloaded"})
		s.w.want("provider_refused slots overloaded")
	})
}

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
		fake, w := fakestore.New(), witnessOf(t)
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
