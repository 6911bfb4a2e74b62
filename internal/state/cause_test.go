package state

import (
	"strings"
	"testing"
)

func TestCauseAndReason(t *testing.T) {
	for cause, want := range map[string]string{
		CauseDailyQuota: CauseDailyQuota, CauseRateLimited: CauseRateLimited, CauseOverloaded: CauseOverloaded, CauseCaller: CauseCaller, "own_1": "own_1",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
		strings.Repeat("x", 65): CauseCaller, "": CauseCaller, "Daily": CauseCaller, "a-b": CauseCaller, "a b": CauseCaller, "ü": CauseCaller, "a\n": CauseCaller,
	} {
		if got := KeptCause(cause); got != want {
			t.Errorf("Cause(%q) = %q, want %q", cause, got, want)
		}
		if reason := CooldownReason(cause); !strings.HasPrefix(reason, "the model is in a cooldown") {
			t.Errorf("Reason(%q) = %q", cause, reason)
		}
	}
}
