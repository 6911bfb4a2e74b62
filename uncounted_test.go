// ObserveUncounted: who is told of a call that nothing counts, and whether it may be sent.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// pathError is an error that names the path that it got.
type pathError struct{ path string }

func (e *pathError) Error() string { return "nothing counts " + e.path }

func asPathError(path, _ string) error { return &pathError{path} }

func TestObserveUncounted(t *testing.T) {
	for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
		synctest.Test(t, func(t *testing.T) {
			var reported []string
			events := make(chan ratelimit.Event, 1)
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{
				FilePath: t.TempDir() + "/s.yaml", Unknown: policy, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}},
				OnError: func(err error) { reported = append(reported, err.Error()) },
				Events: handlerFunc(func(ctx context.Context, e *ratelimit.Event) {
					if ctx.Value(hostKey{}) != "value" {
						t.Error("another context")
					}
					events <- *e
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer rl.Close()
			ctx := context.WithValue(t.Context(), hostKey{}, "value")
			long := "/" + strings.Repeat("x", 300)
			for i := range 240 {
				path := fmt.Sprint("/v1/", i%120)
				if i == 0 {
					path = long
				}
				err := rl.ObserveUncounted(ctx, path, "m", asPathError)
				e, want := <-events, path
				switch {
				case i == 0:
					want = long[:256]
				case i%120 >= 100 || i == 120:
					want = "others"
				}
				var why *pathError
				if e.Kind != ratelimit.EventUncounted || e.Path != want || e.Model != "m" || e.Requested != "m" ||
					!errors.As(e.Err, &why) || why.path != want {
					t.Fatalf("%d: %+v, want %s", i, e, want)
				}
				var limit *ratelimit.LimitError
				denied := errors.As(err, &limit)
				if denied != (policy == ratelimit.UnknownDeny) || denied != errors.Is(err, ratelimit.ErrNeverFits) ||
					denied && (limit.Model != "m" || limit.Decision.Code != ratelimit.DecisionUnknownModel || !limit.Decision.Never) {
					t.Fatalf("%v: %v", policy, err)
				}
			}
			synctest.Wait()
			if len(reported) != 101 || strings.Count(strings.Join(reported, "\n"), "others") != 1 {
				t.Errorf("%d reports, want one for each of 100 paths and one for the others: %q", len(reported), reported)
			}
			if s := rl.AllStats(); len(s) != 0 {
				t.Errorf("something was charged: %v", s)
			}
		})
	}
}

// A limiter that nobody listens to refuses all the same.
func TestObserveUncountedInSilence(t *testing.T) {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s.yaml", Unknown: ratelimit.UnknownDeny})
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	if err := rl.ObserveUncounted(t.Context(), "/p", "", asPathError); !errors.Is(err, ratelimit.ErrNeverFits) {
		t.Errorf("%v", err)
	}
}
