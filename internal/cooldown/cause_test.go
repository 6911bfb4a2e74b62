package cooldown

import (
	"strings"
	"testing"
)

func TestCauseAndReason(t *testing.T) {
	for cause, want := range map[string]string{
		DailyQuota: DailyQuota, RateLimited: RateLimited, Overloaded: Overloaded, Caller: Caller, "own_1": "own_1",
		strings.Repeat("x", 64): strings.Repeat("x", 64),
		strings.Repeat("x", 65): Caller, "": Caller, "Daily": Caller, "a-b": Caller, "a b": Caller, "ü": Caller, "a\n": Caller,
	} {
		if got := Cause(cause); got != want {
			t.Errorf("Cause(%q) = %q, want %q", cause, got, want)
		}
		if reason := Reason(cause); !strings.HasPrefix(reason, "the model is in a cooldown") {
			t.Errorf("Reason(%q) = %q", cause, reason)
		}
	}
}
