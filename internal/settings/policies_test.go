package settings_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/settings"
)

func TestPolicyWords(t *testing.T) {
	w := settings.PolicyWords{Type: "P", What: "policy", Words: []string{"no", "yes"}}
	for value, want := range map[int]string{0: "no", 1: "yes", 2: "P(2)", -1: "P(-1)"} {
		if got := w.String(value); got != want {
			t.Errorf("%d: %q, want %q", value, got, want)
		}
		text, err := w.Marshal(value)
		known := value == 0 || value == 1
		if (err == nil) != known || known && string(text) != want {
			t.Errorf("%d: marshalled %q, %v", value, text, err)
		}
		back := 7
		err = w.Unmarshal(&back, []byte(want))
		if (err == nil) != known || known && back != value || !known && back != 7 {
			t.Errorf("%q: unmarshalled %d, %v", want, back, err)
		}
	}
	if _, err := w.Marshal(2); err == nil || err.Error() != `policy is 2, want "no" or "yes"` {
		t.Errorf("%v", err)
	}
	if err := w.Unmarshal(new(int), []byte("maybe")); err == nil || err.Error() != `policy is "maybe", want "no" or "yes"` {
		t.Errorf("%v", err)
	}
}
