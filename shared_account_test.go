// The account's own limits in a shared database.

package ratelimit_test

import (
	"path/filepath"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// Who wins is the same in all processes, also in one that opens the database later.
func TestSharedQuotaPrecedence(t *testing.T) {
	needSQLite(t)
	type q = ratelimit.ModelQuota
	type steps = []func(rl *ratelimit.RateLimiter)
	set := func(is q) func(*ratelimit.RateLimiter) {
		return func(rl *ratelimit.RateLimiter) { rl.SetQuota("m", is) }
	}
	account := func(is quotas) func(*ratelimit.RateLimiter) {
		return func(rl *ratelimit.RateLimiter) { rl.SetAccountQuotas(is) }
	}
	remove := func(rl *ratelimit.RateLimiter) { rl.RemoveQuota("m") }
	tests := []struct {
		name  string
		steps steps
		want  q // the zero quota for none
	}{
		{"the program over the account", steps{account(quotas{"m": {MaxRPM: 9}}), set(q{MaxRPM: 4})}, q{MaxRPM: 4}},
		{"and the account where it leaves a limit open", steps{set(q{MaxRPM: 4}), account(quotas{"m": {MaxTPM: 90}})}, q{MaxRPM: 4, MaxTPM: 90}},
		{"until it names the model no more", steps{set(q{MaxRPM: 4}), account(quotas{"m": {MaxTPM: 90}}), account(nil)}, q{MaxRPM: 4}},
		{"also for what the program says then", steps{set(q{}), account(quotas{"m": {MaxTPM: 90}}), account(nil), set(q{MaxRPM: 4})}, q{MaxRPM: 4}},
		{"taken back: to the account", steps{set(q{MaxRPM: 4}), account(quotas{"m": {MaxRPM: 9}}), remove}, q{MaxRPM: 9}},
		{"and to nothing", steps{set(q{MaxRPM: 4}), account(quotas{"m": {MaxRPM: 9}}), remove, account(nil)}, q{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := ratelimit.Config{
				Backend: "sqlite", FilePath: filepath.Join(t.TempDir(), "state"), Shared: true, Quotas: quotas{"other": {MaxRPM: 1}},
			}
			pair := [2]*ratelimit.RateLimiter{newLimiterWith(t, cfg), newLimiterWith(t, cfg)}
			for i, step := range tt.steps {
				step(pair[i%2])
			}
			for _, rl := range append(pair[:], newLimiterWith(t, cfg)) {
				if got, ok := quotaOf(rl, "m"); got != tt.want || ok != (tt.want != q{}) {
					t.Errorf("%+v, %t, want %+v", got, ok, tt.want)
				}
				closeLimiter(t, rl)
			}
		})
	}
}
