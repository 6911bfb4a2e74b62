package llmhttp_test

import (
	"math"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// What a provider says that cannot be keeps nobody out for longer than a day.
func TestObserveExtremes(t *testing.T) {
	odd := []int{math.MinInt, -1, 0, 1, 1 << 30, 1<<30 + 1, math.MaxInt}
	times := []time.Duration{math.MinInt64, -1, 0, 1, time.Hour, math.MaxInt64}
	for _, learns := range []bool{false, true} {
		for _, limit := range odd {
			for _, left := range odd {
				for _, reset := range times {
					rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: learns, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxTPM: 100, MaxITPM: 100, MaxOTPM: 100, MaxRPD: 1000, MaxTPD: 1000}}})
					rl.RecordUsage("m", 3, 4)
					one := ratelimit.ProviderLimit{Limit: limit, Remaining: left, HasRemaining: true, Reset: reset, Rounding: limit}
					for _, sent := range []time.Time{{}, time.Unix(0, 0), time.Now(), time.Now().Add(1e6 * time.Hour), time.Unix(1<<30, 0)} {
						rl.Observe("m", ratelimit.ProviderLimits{
							RPM: one, TPM: one, ITPM: one, OTPM: one, RPD: one, TPD: one, SentAt: sent,
							Counted: ratelimit.ModelStats{RPM: left, TPM: left, ITPM: limit}, UncountedRequests: limit, Uncounted: ratelimit.Usage{PromptTokens: limit, OutputTokens: left},
						})
					}
					d := rl.Decide("m", 1)
					_, q, _ := rl.QuotaFor("m")
					if d.RetryAfter < 0 || d.RetryAfter > 24*time.Hour || q.MaxRPM > 10 || q.MaxTPM > 100 || q.MaxRPM < 1 || q.MaxTPD < 1 || q.MaxTPD > 1000 {
						t.Fatalf("limit %d, left %d, reset %v: %+v, %+v", limit, left, reset, d, q)
					}
				}
			}
		}
	}
}
