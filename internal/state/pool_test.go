package state_test

import (
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// What can be read is written so that the same is read again.
func FuzzPoolText(f *testing.F) {
	for _, text := range []string{
		`{"models":["m"]}`, `{"models":[]}`, `{"models":null,"gone":true}`, `{"gone":true}`, `{"models":["m"],"gone":true}`, `{"model":1}`, `{}x`, ``,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		models, gone, err := state.ParsePool(text)
		switch {
		case err != nil:
		case gone && len(models) > 0:
			t.Errorf("%q is gone and has %q", text, models)
		case !gone:
			again, err := state.ParseMembers(state.PoolText(models))
			if err != nil || !slices.Equal(again, models) {
				t.Errorf("%q reads %q, then %q, %v", text, models, again, err)
			}
		}
	})
}
